"""Renders the HTML page of a release.

Tested by `tests/builders/report/test_page.py`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.card import facts
from builders.card.words import ROLE_NAMES
from builders.registry import BENCHMARKS
from builders.release.duplicates import doubts
from builders.release.entries import ConfigEntry, Manifest
from builders.release.layout import INDEX_SUFFIX, Layout
from builders.release.reader import unreadable_file
from builders.release.schema import Role
from builders.release.tables import Exclusion, read_excluded
from builders.report import audits, counts
from builders.report.classes import class_data, class_trees
from builders.report.counts import chip
from builders.report.pictures import (
    PictureChoice,
    Thumbnail,
    may_be_published,
    pictured_sources,
    read_split_rows,
    thumbnails,
)
from builders.sources.registry import SOURCES
from unknown_detection.pages.content import Entry, anchor
from unknown_detection.pages.render import render_template
from unknown_detection.words import byte_text, quantity

_FOLDER = Path(__file__).parent

Thumbnails = Mapping[tuple[str, Role], Sequence[Thumbnail]]
"""Thumbnails by split (`config/split`) and role."""


def page(root: Path, manifest: Manifest, pictures: PictureChoice) -> str:
    """Render the page of a release, with pictures of all sources, of those that anybody may be shown, or none."""
    pictured = pictured_sources(manifest, pictures)
    split_rows = [read_split_rows(root, key, split, pictured) for key, _, split in manifest.splits()]
    excluded = list(_excluded(root, manifest))
    titles = {key: source.title for key, source in manifest.sources.items()}
    thumbnails_of = thumbnails(root, manifest, split_rows)
    citations = [benchmark.citation for _, benchmark in sorted(manifest.benchmarks.items())]
    citations += [source.citation for _, source in sorted(manifest.sources.items())]
    return render_template(
        "release.html.j2",
        folders=[_FOLDER],
        style=(_FOLDER / "release.css").read_text(encoding="utf-8"),
        script=(_FOLDER / "classes.js").read_text(encoding="utf-8"),
        title=f"{root.resolve().name}{f' {manifest.version}' if manifest.version else ''}",
        contents=_contents(manifest),
        manifest=manifest,
        release=str(root),
        quoted=shlex.quote(str(root)),
        facts=_figures(manifest),
        demo=any(benchmark.demo for benchmark in manifest.benchmarks.values()),
        partial=[key for key, _, split in manifest.splits() if split.shortfalls],
        local=_local(manifest, thumbnails_of),
        chip=chip,
        roles=[role for role in ROLE_NAMES if any(role in split.roles for _, _, split in manifest.splits())],
        overview=counts.configs_table(manifest),
        splits={name: counts.splits_table(manifest, name) for name in manifest.configs},
        reasons={name: counts.reasons(manifest, name) for name in manifest.configs},
        pictures={
            name: list(_pictures(name, config, thumbnails_of, pictures)) for name, config in manifest.configs.items()
        },
        class_data=class_data(class_trees(titles, split_rows, excluded).values()),
        tables={
            "rules": counts.rules_table(manifest),
            "images": counts.images_table(excluded),
            "withdrawn": counts.withdrawn_table(manifest),
            "digests": counts.digests_table(manifest),
            "files": counts.files_table(manifest),
            "sources": counts.sources_table(manifest),
            "overlapping": audits.overlapping_rows(root, manifest),
        },
        overlap=audits.audit(root, manifest, "overlap"),
        artifacts=[audits.audit(root, manifest, "artifacts", name) for name in sorted(manifest.configs)],
        other_audits=audits.other_audits(manifest),
        duplicates=audits.duplicates_table(root, manifest),
        doubts=doubts(manifest),
        compared=audits.compared(manifest),
        plain=audits.plain,
        loading=_loading(root, manifest),
        rebuilding=_rebuilding(manifest),
        citations=list(dict.fromkeys(text.strip() for text in citations if text.strip())),
    )


def _excluded(root: Path, manifest: Manifest) -> Iterator[Exclusion]:
    for _, config in sorted(manifest.configs.items()):
        path = Layout(root).inside(config.excluded.path)
        try:
            yield from read_excluded(path, config.excluded.sha256)
        except OSError as error:
            raise unreadable_file(path, error) from error


def _contents(manifest: Manifest) -> list[Entry]:
    configs = [Entry(anchor("config", name), name) for name in sorted(manifest.configs)]
    return [
        Entry("summary", "Summary"),
        Entry("configs", "Configs", configs),
        Entry("classes", "Classes"),
        Entry("left-out", "Left out"),
        Entry("audits", "Audits", [Entry("overlap", "Overlap"), Entry("artifacts", "Artifacts")]),
        Entry("duplicates", "Duplicates"),
        Entry("digests", "Digests"),
        Entry("licences", "Sources and licences"),
        Entry("use", "Load and rebuild", [Entry("load", "Load"), Entry("rebuild", "Rebuild"), Entry("cite", "Cite")]),
    ]


def _figures(manifest: Manifest) -> list[tuple[str, str | int, str]]:
    splits, files = manifest.by_key(), manifest.files_and_card()
    return [
        ("version", manifest.version or "not published", f"after {manifest.previous}" if manifest.previous else ""),
        ("rows", sum(split.rows for split in splits.values()), f"in {quantity(len(splits), 'split')}"),
        ("configs", len(manifest.configs), f"of {quantity(len(manifest.benchmarks), 'benchmark')}"),
        ("size", byte_text(sum(file.size for file in files)), f"in {quantity(len(files), 'file')}"),
        ("sources", len(manifest.sources), ""),
    ]


def _local(manifest: Manifest, thumbnails_of: Thumbnails) -> list[str]:
    """Return the titles of sources whose pictures the page shows although they may not be published."""
    by_key = manifest.by_key()
    shown = {source for (key, _), images in thumbnails_of.items() if images for source in by_key[key].sources}
    return [manifest.sources[key].title for key in sorted(shown) if not may_be_published(key)]


def _pictures(
    name: str, config: ConfigEntry, thumbnails_of: Thumbnails, pictures: PictureChoice
) -> Iterator[dict[str, Any]]:
    """Yield the pictures of each role of a config's splits, or why there are none."""
    for split, entry in sorted(config.splits.items()):
        if pictures == "none":
            why = "the page was made without pictures"
        elif not entry.data:
            why = "the release has the split's index alone"
        else:
            why = "not everybody may be shown images of its sources, or the page has no room for more"
        for role in entry.roles:
            shown = thumbnails_of.get((f"{name}/{split}", role), ())
            yield {"split": split, "role": role, "thumbnails": shown, "why_none": "" if shown else why}


def _loading(root: Path, manifest: Manifest) -> str:
    lines = ["from datasets import load_dataset", ""]
    for loading in sorted(facts.configs_to_load(manifest), key=lambda loading: loading.config):
        name = loading.config.removesuffix(INDEX_SUFFIX).replace("-", "_")
        lines.append(f'{name} = load_dataset({json.dumps(str(root))}, "{loading.config}", split="{loading.shown}")')
    return "\n".join(lines)


def _rebuilding(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the command that builds each benchmark's configs again, with its title."""
    commands = []
    for key, benchmark in sorted(manifest.benchmarks.items()):
        configs = {name: config for name, config in sorted(manifest.configs.items()) if config.benchmark == key}
        words = ["python", "-m", "builders.folder_benchmark"]
        if key in BENCHMARKS:
            words = ["python", "-m", f"builders.{key}_benchmark", "--splits", ",".join(configs)]
            used = {source for config in configs.values() for s in config.splits.values() for source in s.sources}
            on_disk = [source for source in sorted(used) if source in SOURCES and SOURCES[source].on_disk]
            words += ["--demo"] if benchmark.demo else [word for source in on_disk for word in (f"--{source}", "DIR")]
        if benchmark.seed:
            words += ["--seed", str(benchmark.seed)]
        if benchmark.limit_per_class is not None:
            words += ["--limit-per-class", str(benchmark.limit_per_class)]
        commands.append((f"{benchmark.title}, {benchmark.version}", shlex.join([*words, "--out", "build/again"])))
    return commands
