"""Build a published index with your own images: `python -m hf_scripts.materialize ORG/NAME CONFIG --revision TAG`."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from builders.cli.progress import TerminalMeter
from builders.cli.runner import exit_code
from builders.cli.source_flags import SOURCES_FILE, listed_sources, missing_sources, source_options, sources_option
from builders.cli.source_places import Downloads, cache_option
from builders.errors import BuildError, os_errors_as_build_errors
from builders.executors.cores import usable_cores
from builders.executors.local import LocalExecutor
from builders.executors.processes import without_pandas
from builders.hub.client import hub_settings
from builders.hub.repository import Repository
from builders.pipeline.from_index import Published, needed_sources, rebuild
from builders.release.digests import file_sha256
from builders.release.entries import FileEntry
from builders.sources.registry import SOURCES
from builders.storage.scratch import scratch_folder

_WORKER_IMPORTS = ("builders.pipeline.from_index", "builders.generate.task", "builders.hub.repository", "numpy.ma")


def _command(**flags: Any) -> None:
    """Build the rows of CONFIG from your own sources, exactly as ORG/NAME (or the release folder DIR) publishes them.

    Every image is compared with the digest in the published index, so the split digests equal the published ones.
    """
    target, config = flags["target"], flags["config"]
    if flags["withdraw"] is not None:
        raise BuildError(
            "--withdraw does not apply to a published index, whose rows are built as they were published. To leave "
            "rows out, build the benchmark from its sources with python -m builders.<benchmark> --withdraw."
        )
    with (
        TerminalMeter(quiet=flags["quiet"]) as meter,
        os_errors_as_build_errors("read the sources and write the release"),
        _published(target, config, flags["revision"], meter) as published,
    ):
        roots = _roots(published, flags, meter)
        with LocalExecutor(flags["workers"], preload=_WORKER_IMPORTS) as executor:
            manifest = rebuild(published, roots, flags["out"], meter, executor)
    splits = manifest.configs[config].splits
    for name in sorted(splits):
        click.echo(f"{config}/{name}: {splits[name].rows:,} rows, digest {splits[name].digest[:12]} as published")
    click.echo(f"built {flags['out']}")
    click.echo(f'load_dataset("{flags["out"]}", "{config}", split="{min(splits)}")')


@contextlib.contextmanager
def _published(target: str, config: str, revision: str | None, meter: TerminalMeter) -> Iterator[Published]:
    """The published rows of a config, from a release folder, or downloaded from the Hub to a temporary folder."""
    if Path(target).is_dir():
        yield Published(Path(target), config)
        return
    if revision is None:
        raise BuildError(
            f"There is no folder {target}, and building from the Hub needs a revision. Give a tag such as v1.0.0 with "
            "--revision (a branch moves)."
        )
    with scratch_folder("materialize") as into, hub_settings():
        repository = Repository(target, meter.note)
        commit = repository.resolve(revision)
        if commit is None:
            raise BuildError(
                f"{target} has no revision {revision} on {repository.host}, or is no repository. Check the names, and "
                "log in with `hf auth login` if it is private."
            )
        _fetch(repository, commit, ["manifest.json"], into)

        def fetch(file: FileEntry, to: Path) -> None:
            _fetch(repository, commit, [file.path], into)
            shutil.move(into / file.path, to)

        published = Published(into, config, f"{target} at {revision}", fetch)
        entry = published.entry()
        listed = [entry.excluded, *(split.index for split in entry.splits.values())]
        listed += [table.file] if (table := published.manifest.duplicates) is not None else []
        _fetch(repository, commit, [file.path for file in listed], into)
        for file in listed:
            if file_sha256(into / file.path) != file.sha256:
                raise BuildError(
                    f"The release {target} at {revision} is damaged: {file.path} does not have the digest in its "
                    "manifest. Give another --revision, and tell its publisher."
                )
        yield published


def _fetch(repository: Repository, commit: str, paths: Sequence[str], into: Path) -> None:
    there = repository.tree(commit)
    for path in paths:
        if path not in there:
            raise BuildError(f"{repository.name} is not a release: it has no {path}. Give another repository.")
        repository.fetch(there[path], commit, into)


def _roots(published: Published, flags: dict[str, Any], meter: TerminalMeter) -> dict[str, Path]:
    listed = listed_sources(flags["sources"])
    partitions = needed_sources(published)
    needed = [source for source in partitions if source.on_disk]
    named = {source: flags[source.key] or listed.get(source.key) for source in needed}
    places = {source: place for source, place in named.items() if place is not None}
    missing = [source for source in needed if source not in places]
    if missing:
        lines = [f"{published.config} needs a folder for each of its sources. Missing:"]
        lines += missing_sources((source, published.config) for source in missing)
        raise BuildError("\n".join([*lines, f"Folders can also be listed once in {SOURCES_FILE} (see README)."]))
    return Downloads(flags["cache"], meter.note, quiet=flags["quiet"]).folders(places, partitions)


def _make_command() -> click.Command:
    command = click.command(
        name="python -m hf_scripts.materialize",
        help=_command.__doc__,
        epilog="Example: python -m hf_scripts.materialize ORG/unknown-detection cifar-train --revision v1.0.0 "
        "--cifar100 DIR --out build/cifar",
        context_settings={"help_option_names": ["-h", "--help"]},
    )(_command)
    options = [
        click.argument("target", metavar="ORG/NAME|DIR"),
        click.argument("config", metavar="CONFIG"),
        click.option("--revision", metavar="TAG", help="Tag or commit of the published release."),
        click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Release folder."),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            default=usable_cores,
            show_default="all usable cores",
            help="Processes that write shards.",
        ),
        sources_option(),
        cache_option(),
        click.option("--withdraw", hidden=True),
        click.option("--quiet", is_flag=True, help="No progress on stderr."),
        *source_options(SOURCES.values()),
    ]
    for option in options:
        command = option(command)
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    stopped = "stopped; run the same command again, and it resumes."
    return exit_code(_make_command(), argv, stopped=stopped)


if __name__ == "__main__":
    without_pandas()
    sys.exit(main())
