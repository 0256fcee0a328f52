"""Build a published index with your own images: `python -m hf_scripts.materialize ORG/NAME --revision TAG`."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from builders.cli.build_options import BuildRequest, parse_flags
from builders.cli.console import aligned_lines, check_json, exit_code, json_option, print_document
from builders.cli.executor_flags import EXECUTOR_FLAGS, EXECUTOR_OPTIONS
from builders.cli.source_flags import cache_option, source_options, source_roots, sources_option
from builders.cli.split_choice import chosen_splits, splits_option
from builders.commands.summary import loading_line
from builders.errors import BuildError, os_errors_as_build_errors
from builders.executors.base import without_pandas
from builders.hub.client import hub_settings
from builders.hub.place import folder_or_repository
from builders.hub.repository import Repository
from builders.pipeline.from_index import plan_published
from builders.pipeline.published import Published
from builders.pipeline.run import write_release
from builders.pipeline.state import refuse_unusable
from builders.release.entries import FileEntry
from builders.release.manifest import read_manifest
from builders.sources.base import Source
from builders.sources.titles import TITLES
from builders.storage.paths import PathType, require_access
from builders.storage.scratch import scratch_folder
from hf_scripts.publish.snapshot import snapshot
from unknown_detection.help import ESSENTIALS, helpful, no_sync_option
from unknown_detection.terminal.progress import TerminalMeter

_WORKER_IMPORTS = ("builders.pipeline.from_index", "builders.generate.task", "builders.hub.repository", "numpy.ma")


def _command(target: str, revision: str | None, **values: Any) -> None:
    """Build published rows from your own sources, exactly as ORG/NAME (or the release folder DIR) publishes them.

    Every image is compared with the digest in the published index, so the split digests equal the published ones.
    """
    request = parse_flags(values, TITLES)
    if request.withdraw is not None:
        raise BuildError(
            "--withdraw does not apply to a published index, whose rows are built as they were published. To leave "
            "rows out, build the benchmark from its sources, with --withdraw."
        )
    check_json(as_json=request.as_json, dry_run=request.dry_run)
    request.executor.check()
    refuse_unusable(request.out)
    require_access(request.out, writing=not request.dry_run)
    meter = TerminalMeter(quiet=request.quiet)
    with (
        os_errors_as_build_errors("read the sources and write the release"),
        _published(target, request.splits, revision, meter) as configs,
    ):
        roots = _roots(configs, request, meter)
        with request.executor.started(preload=_WORKER_IMPORTS) as executor:
            for published in configs:
                plan = plan_published(published, request, roots)
                if not request.dry_run:
                    write_release(plan, executor, meter)
        splits = {key: split for published in configs for key, split in published.splits.items()}
    if request.as_json:
        document = {"release": target, "revision": revision, "out": str(request.out)}
        rows = [{"split": key, "rows": split.rows, "digest": split.digest} for key, split in splits.items()]
        print_document("materialize", document | {"rows": sum(s.rows for s in splits.values()), "splits": rows})
    elif request.dry_run:
        lines = [[key, f"{split.rows:,}", split.digest[:12]] for key, split in splits.items()]
        click.echo("\n".join(aligned_lines([["split", "rows", "digest"], *lines])))
        click.echo(f"dry run: nothing was written; the sources have all images of {request.out}")
    else:
        for key, split in splits.items():
            click.echo(f"{key}: {split.rows:,} rows, digest {split.digest[:12]} as published")
        config, _, name = min(splits).partition("/")
        click.echo(f"built {request.out}")
        click.echo(loading_line(request.out, config, name, splits[f"{config}/{name}"]))


@contextlib.contextmanager
def _published(
    target: str, requested: Sequence[str], revision: str | None, meter: TerminalMeter
) -> Iterator[list[Published]]:
    """Yield the requested rows of each config, from a release folder or from files downloaded for the block."""
    folder = folder_or_repository(target, revision)
    if not isinstance(folder, str):
        yield _configs(folder, requested, target)
        return
    if revision is None:
        raise BuildError(
            f"There is no folder {target}, and building from the Hub needs a revision. Give a tag such as v1.0.0 with "
            "--revision (a branch moves)."
        )
    with scratch_folder("materialize") as into, hub_settings():
        repository = Repository(target, meter.note)
        release = snapshot(repository, repository.commit_at(revision), into)

        def fetch(file: FileEntry, to: Path) -> None:
            shutil.move(release.fetch(file.path), to)

        configs = _configs(into, requested, f"{target} at {revision}", fetch)
        for published in configs:
            for file in (published.entry.excluded, *(split.index for split in published.splits.values())):
                release.fetch(file.path)
        if (table := release.manifest.duplicates) is not None:
            release.fetch(table.path)
        yield configs


def _configs(
    root: Path, requested: Sequence[str], name: str, fetch: Callable[[FileEntry, Path], object] | None = None
) -> list[Published]:
    """Return the configs of a release that values of `--splits` name; messages call the release by `name`."""
    shown = "" if fetch is None else name
    splits: dict[str, set[str]] = {}
    for key in chosen_splits(requested, list(read_manifest(root, shown).by_key()), name):
        config, _, split = key.partition("/")
        splits.setdefault(config, set()).add(split)
    return [Published(root, config, shown, fetch, frozenset(names)) for config, names in splits.items()]


def _roots(configs: Sequence[Published], request: BuildRequest, meter: TerminalMeter) -> dict[str, Path]:
    needing: dict[Source, list[str]] = {}
    partitions: dict[Source, tuple[str, ...]] = {}
    for published in configs:
        for source, used in published.sources.items():
            if source.on_disk:
                needing.setdefault(source, []).append(published.config)
                partitions[source] = tuple(dict.fromkeys([*partitions.get(source, ()), *used]))
    return source_roots(needing, partitions, request, meter.note)


def make_command() -> click.Command:
    """Make the click command, with a flag for each source."""
    command = helpful(
        "python -m hf_scripts.materialize",
        help=_command.__doc__,
        sections={
            ESSENTIALS: ("splits", "revision", "out", "dry_run"),
            "How it runs": (*EXECUTOR_FLAGS, "no_sync", "quiet", "as_json"),
            "Sources (run without any to see which are needed)": [*TITLES, "sources"],
        },
        examples=(
            "python -m hf_scripts.materialize ORG/unknown-detection --splits cifar-train --revision v1.0.0 "
            "--cifar100 DIR --out build/cifar",
        ),
    )(_command)
    options = [
        click.argument("target", metavar="ORG/NAME|DIR"),
        splits_option("Build only these."),
        click.option("--revision", metavar="TAG", help="Tag or commit of the published release."),
        click.option("--out", type=PathType(), required=True, metavar="DIR", help="Release folder, or address."),
        click.option("--dry-run", is_flag=True, help="Look for the rows in the sources, and write nothing."),
        json_option(only="--dry-run"),
        *EXECUTOR_OPTIONS,
        sources_option,
        cache_option,
        click.option("--withdraw", hidden=True),
        no_sync_option,
        click.option("--quiet", is_flag=True, help="No progress on stderr."),
        *source_options(TITLES),
    ]
    for option in options:
        command = option(command)
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    stopped = "stopped; run the same command again, and it resumes."
    return exit_code(make_command(), argv, stopped=stopped)


if __name__ == "__main__":
    without_pandas()
    sys.exit(main())
