"""The release to publish: a release folder merged with the published release of a repository.

Tested by `tests/hf_scripts/test_push.py`.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from builders.card import card
from builders.duplicates.table import complete, read_earlier, write_duplicates
from builders.errors import BuildError
from builders.release.entries import EMPTY, ConfigEntry, FileEntry, Manifest
from builders.release.layout import CHANGELOG, CHANGES, DESCRIPTIONS, MANIFEST, Layout
from builders.release.manifest import file_entry
from builders.release.tables import read_excluded, write_excluded
from builders.storage.files import write_text
from builders.storage.parquet import read_parquet
from hf_scripts.checks import manifest as check_manifest
from hf_scripts.checks import release
from hf_scripts.checks.problems import Problems
from hf_scripts.publish import changelog
from hf_scripts.publish.changelog import RowChanges, row_changes
from hf_scripts.publish.merge import merge
from hf_scripts.publish.snapshot import Snapshot
from hf_scripts.publish.versions import Changes, Version, compare_manifests


def damaged_folder(folder: Path, problems: Problems) -> BuildError:
    """Return the error for a damaged release folder, with its first problem."""
    return BuildError(
        f"The release in {folder} is damaged: {problems.first()}. List all problems with python -m "
        f"hf_scripts.verify {folder}, and build it again."
    )


@dataclass
class MergedRelease:
    """A release to publish.

    `folder` is the release folder, `part` the part of its manifest to publish, `base` the release in the repository,
    and `manifest` the merged manifest. `root` has the merged tables, of which `written` are the paths.
    """

    folder: Path
    root: Path
    base: Snapshot
    manifest: Manifest
    part: Manifest
    written: list[str] = field(default_factory=list)

    @functools.cached_property
    def part_files(self) -> dict[str, FileEntry]:
        """The files of `folder` to publish, by path."""
        return {file.path: file for file in self.part.files()}

    def local(self, path: str) -> Path | None:
        """Return the local path of a file of the release; None if only the repository has it."""
        if path in self.written:
            return self.root / path
        return self.folder / path if path in self.part_files else None

    def fetch(self, path: str) -> Path:
        """Check a file of the release, downloaded if necessary, and return its local path."""
        if path in self.part_files and path not in self.written:
            return self.checked(path)
        return self.local(path) or self.base.fetch(path)

    def checked(self, path: str) -> Path:
        """Check a file of `folder`, and return its path."""
        problems = check_manifest.check_file(self.folder, self.part_files[path])
        if problems.total():
            raise damaged_folder(self.folder, problems)
        return self.folder / path

    def add(self, path: Path) -> FileEntry:
        """Register a file that was written below `root`; returns its entry in the manifest."""
        entry = file_entry(Layout(self.root), path)
        self.written.append(entry.path)
        return entry


def merge_with_published(folder: Path, part: Manifest, base: Snapshot, root: Path) -> MergedRelease:
    """Merge the `part` of a release folder's manifest with the published release.

    The tables of exclusions and of duplicates are merged, too, into the new folder `root`.
    """
    root.mkdir(parents=True)
    manifest = merge(base.manifest, part, base.repository.name)
    merged = MergedRelease(folder, root, base, manifest, part)
    configs = {name: _with_tables(merged, name) for name in sorted(part.configs)}
    merged.manifest = replace(merged.manifest, configs={**merged.manifest.configs, **configs})
    _merge_duplicates(merged)
    return merged


def _with_tables(merged: MergedRelease, name: str) -> ConfigEntry:
    """Merge a config's table of exclusions, and return its entry with the merged table."""
    published = merged.base.manifest.configs.get(name)
    path = Layout(merged.root).excluded(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if published is not None:
        path.write_bytes(merged.base.fetch(published.excluded.path).read_bytes())
    config = merged.part.configs[name]
    parts = [part.key for split in config.splits.values() for part in split.parts]
    lines = read_excluded(merged.checked(config.excluded.path))
    write_excluded(path, [line for line in lines if line.split in parts], parts)
    return replace(merged.manifest.configs[name], excluded=merged.add(path))


def _merge_duplicates(merged: MergedRelease) -> None:
    """Merge the tables of duplicates, and add the pairs between splits of both releases.

    Indexes of remaining splits are downloaded where they have not been compared before. Without a table on either
    side, nothing is written.
    """
    earlier_tables, tables = [], []
    for manifest, fetch in ((merged.base.manifest, merged.base.fetch), (merged.part, merged.checked)):
        if manifest.duplicates is not None:
            tables.append(fetch(manifest.duplicates.path))
            earlier_tables.append(read_earlier(manifest, tables[-1]))
    if not tables:
        return
    known = merged.manifest.by_key()
    table = complete(merged.manifest, lambda key: merged.fetch(known[key].index.path), earlier_tables, trusting=True)
    listed = write_duplicates(Layout(merged.root), merged.manifest, table, tables)
    merged.manifest = replace(merged.manifest, duplicates=listed)
    merged.written.append(listed.path)


def check_withdrawn(merged: MergedRelease) -> None:
    """Check that no image is published again that the release in the repository has withdrawn."""
    splits, withdrawn = merged.part.by_key(), merged.base.manifest.withdrawn()
    for key in sorted({key for key, _ in withdrawn} & splits.keys()):
        ids = read_parquet(merged.checked(splits[key].index.path), ["id"])["id"]
        for row in (row for split, row in withdrawn if split == key):
            if pc.is_in(pa.scalar(row.id), value_set=ids).as_py():
                raise BuildError(
                    f"{key} of this release has {row.id}, which {merged.base.repository.name} has withdrawn "
                    f"({row.reason}). Build it with --withdraw, or publish the image again with --allow-withdrawn."
                )


def check_together(merged: MergedRelease) -> None:
    """Check that splits built separately fit together: exclusions add up, and no id occurs twice.

    The indexes of remaining splits are downloaded. Nothing is done if no split of the same benchmark remains.
    """
    names = {config.benchmark for config in merged.part.configs.values()}
    configs = {name: config for name, config in merged.manifest.configs.items() if config.benchmark in names}
    together = replace(merged.manifest, configs=configs)
    if together.by_key().keys() <= merged.part.by_key().keys():
        return
    for _, _, split in together.splits():
        path = Layout(merged.root).inside(split.index.path)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(merged.fetch(split.index.path).resolve())
    problems = Problems()
    disjoint = release.check_excluded(merged.root, together, problems)
    release.check_ids(merged.root, together, disjoint, problems)
    if problems.total():
        raise BuildError(
            f"These splits do not fit those that stay in {merged.base.repository.name}: {problems.first()}. Build "
            "them with the same choices, or push all splits together."
        )


def changes_since(merged: MergedRelease, last: Snapshot) -> Changes:
    """Return the differences between a published version and the merged release, including the card."""
    # These files may show version, repository and day, which alone are no difference.
    before = last.manifest
    shown = replace(merged.manifest, version=before.version, repository=before.repository, published=before.published)
    entries = {
        path: FileEntry(path, len(text.encode()), hashlib.sha256(text.encode()).hexdigest())
        for path, text in card.rendered(shown).items()
    }
    described = replace(merged.manifest, **{field: entries[path] for field, path in DESCRIPTIONS.items()})
    return compare_manifests(before, described)


def write_version(
    merged: MergedRelease,
    repository: str,
    version: Version,
    last: tuple[Version, Snapshot] | None,
    changes: Changes,
) -> None:
    """Write the files of a new version: changelog, table of changes, card and manifest, which names them all.

    `last` is the highest published version and its release; None before the first.
    """
    layout = Layout(merged.root)
    old, before, tables = EMPTY, "", []
    rows: Sequence[RowChanges] = ()
    if last is not None:
        old = last[1].manifest
        listed = {entry.path: entry for entry in old.changelog or ()}
        before = last[1].fetch(CHANGELOG).read_text(encoding="utf-8") if CHANGELOG in listed else ""
        tables = [entry for path, entry in listed.items() if path != CHANGELOG]
        indexes, earlier = ({key: s.index.path for key, s in m.by_key().items()} for m in (merged.manifest, old))
        rows = [
            row_changes(
                key,
                last[1].fetch(earlier[key]) if key in earlier else None,
                merged.fetch(indexes[key]) if key in indexes else None,
            )
            for key in changes.splits
        ]
    if any(split.total() for split in rows):
        path = layout.inside(f"{CHANGES}/{version.tag}.csv")
        changelog.write_changes(path, rows)
        tables.append(merged.add(path))
    text = changelog.entry(version, last[0] if last else None, old, merged.manifest, changes, rows)
    write_text(layout.inside(CHANGELOG), changelog.with_entry(before, text))
    manifest = replace(
        merged.manifest,
        version=str(version),
        previous=str(last[0]) if last else "",
        repository=repository,
        published=published_on(merged.base.manifest, version),
        changelog=tuple(sorted([merged.add(layout.inside(CHANGELOG)), *tables], key=lambda entry: entry.path)),
    )
    merged.manifest = card.write_card_and_manifest(layout, manifest)
    merged.written += [*DESCRIPTIONS.values(), MANIFEST]


def published_on(base: Manifest, version: Version) -> str:
    """Return the day of a version: today in UTC, or that of its commit if a run ended between commit and tag."""
    if base.version == str(version) and base.published is not None:
        return base.published
    return datetime.datetime.now(datetime.UTC).date().isoformat()
