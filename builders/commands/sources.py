"""Show the sources and get their files: `python -m builders.commands.sources`.

Tested by `tests/builders/commands/test_sources.py`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from builders.cli.console import aligned_lines, exit_code, print_document
from builders.cli.source_flags import listed_sources, recognised_partitions, sources_option
from builders.errors import BuildError, os_errors_as_build_errors
from builders.fetch.get import cautions, get, needed_bytes, only_for, states, toml_line
from builders.hub.place import HubPlace
from builders.registry import BENCHMARKS
from builders.sources.base import Source
from builders.sources.registry import SOURCES
from builders.storage.files import free_bytes
from builders.storage.folders import cached_listings, takes_requests
from taxonomy.errors import suggestion
from unknown_detection.help import HelpGroup, no_sync_option
from unknown_detection.terminal.progress import log
from unknown_detection.words import byte_text

MAY_PUBLISH: Mapping[str, str] = {"open": "images", "gated": "images, not publicly", "ids-only": "ids only"}
"""What a licence lets one publish, in a few words."""

_LICENCE = 32
"""Characters of a licence's name in the table; `show` and `--json` have all of it."""


class SourceName(click.Choice[str]):
    """A source's key, in which hyphens stand for underscores, too; where `parts`, also `<key>-<partition>`."""

    def __init__(self, *, parts: bool = False) -> None:
        super().__init__(list(SOURCES))
        self.parts = parts

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the key, or the key, a hyphen and the partition."""
        start, _, partition = value.rpartition("-")
        key = start.replace("-", "_")
        if self.parts and key in SOURCES and partition in SOURCES[key].expected():
            return f"{key}-{partition}"
        key = value.replace("-", "_")
        if key not in SOURCES and (near := suggestion(key, SOURCES)):
            self.fail(f"{value!r} is no source{near}.", param, ctx)
        return super().convert(key if key in SOURCES else value, param, ctx)


def _source_named(name: str) -> Source:
    """Return the source of a `SourceName`, limited to a partition if that has one."""
    key, _, partition = name.partition("-")
    return only_for(SOURCES[key], partition) if partition else SOURCES[key]


@dataclass(frozen=True)
class Overview:
    """One source, and its copy on this machine.

    `needed_by` has the splits that need the source, by benchmark; a variant's flag follows the benchmark's name.
    `folder` is where the copy is, or an address on the Hub. `folder_exists` is None for the Hub, and for a store that
    was not asked. `partitions` are those recognised in the copy, None if nobody looked.
    """

    source: Source
    needed_by: Mapping[str, tuple[str, ...]]
    folder: Path | HubPlace | None = None
    folder_exists: bool | None = None
    partitions: tuple[str, ...] | None = None

    @property
    def size(self) -> str:
        """The bytes of the owner's files together, as far as their sizes are published."""
        sizes = [file.size for file in self.source.obtain.files] if self.source.obtain else []
        if not sum(sizes):
            return "not published"
        return byte_text(sum(sizes)) + ("" if all(sizes) else " and more")

    @property
    def ways(self) -> str:
        """The ways to get the source: by the command `get`, from the Hub, or by hand."""
        obtain = self.source.obtain
        ways = ["get"] if obtain and obtain.is_plain else []
        if obtain and obtain.mirror and obtain.mirror.at:
            ways.append("Hub (account)" if obtain.mirror.gated else "Hub")
        return ", ".join(ways) or "by hand"

    @property
    def location(self) -> str:
        """Where the copy is on this machine, and which partitions it has."""
        if self.folder is None:
            return "no"
        if self.folder_exists is False:
            return f"no folder {self.folder}"
        if self.partitions is None:
            return str(self.folder)
        return f"{self.folder} ({', '.join(self.partitions) or 'not recognised'})"

    def cells(self) -> list[str]:
        """Return the source's line of the table."""
        needed = ", ".join(f"{name} ({len(splits)})" for name, splits in self.needed_by.items())
        licence = self.source.licence
        licence_name = licence.name if len(licence.name) <= _LICENCE else f"{licence.name[: _LICENCE - 3]}..."
        publish = MAY_PUBLISH[licence.publish]
        return [self.source.key, needed, self.size, licence_name, publish, self.ways, self.location]

    def as_json(self) -> dict[str, Any]:
        """Return the description for programs."""
        source, obtain = self.source, self.source.obtain
        files = obtain.files if obtain else ()
        mirror = obtain.mirror if obtain else None
        return {
            "source": source.key,
            "title": source.title,
            "edition": source.edition,
            "needed_by": {name: list(splits) for name, splits in self.needed_by.items()},
            "licence": {"name": source.licence.name, "url": source.licence.url, "publish": source.licence.publish},
            "page": obtain.page if obtain else None,
            "files": [
                {
                    "name": file.name,
                    "bytes": file.exact_size or None,
                    "url": file.url or None,
                    "mirrors": list(file.mirrors),
                    "md5": file.md5 or None,
                    "sha256": file.sha256 or None,
                }
                for file in files
            ],
            "hub": {"place": mirror.at, "gated": mirror.gated} if mirror and mirror.at else None,
            "folder": None if self.folder is None else str(self.folder),
            "folder_exists": self.folder_exists,
            "partitions_found": None if self.partitions is None else list(self.partitions),
        }


def describe_source(source: Source, folder: Path | HubPlace | None = None, *, scan: bool = False) -> Overview:
    """Describe a source and its copy on this machine; with `scan`, also which partitions the folder holds."""
    needed = {}
    for name, benchmark in BENCHMARKS.items():
        readings = {name: benchmark} if source in benchmark.sources() else {}
        for variant in benchmark.variants:
            if variant.source is source:
                readings[f"{name} --{variant.name}"] = benchmark.with_variants([variant.name])
        for reading, declared in readings.items():
            needed[reading] = tuple(
                key for key, parts in declared.splits.items() if source in declared.partitions(parts)
            )
    if folder is None or isinstance(folder, HubPlace) or (takes_requests(folder) and not scan):
        return Overview(source, needed, folder)  # a store is only asked where one waits for it
    partitions, exists = None, folder.is_dir()
    if scan and exists:
        with cached_listings(folder):
            partitions = tuple(recognised_partitions(source, folder))
    return Overview(source, needed, folder, exists, partitions)


@click.group(
    name="python -m builders.commands.sources",
    invoke_without_command=True,
    cls=HelpGroup,
    examples=("python -m builders.commands.sources get cifar100 svhn dtd places365-val --into sources",),
)
@sources_option
@click.option("--scan", is_flag=True, help="Look into each folder and say which partitions are recognised.")
@click.option("--json", "as_json", is_flag=True, help="Print all that is known as JSON.")
@click.pass_context
def command(context: click.Context, sources: Path | None, scan: bool, as_json: bool) -> None:
    """Show every source: who needs it, its size and licence, how to get it, and where it is on this machine."""
    if context.invoked_subcommand is not None:
        return
    with os_errors_as_build_errors("read the sources"):
        folders = listed_sources(sources)
        overviews = [describe_source(source, folders.get(key), scan=scan) for key, source in SOURCES.items()]
    if as_json:
        print_document("sources", {"sources": [entry.as_json() for entry in overviews]})
        return
    headings = ["source", "needed by (splits)", "size", "licence", "may publish", "from", "here"]
    for line in aligned_lines([headings, *(entry.cells() for entry in overviews)]):
        click.echo(line)


@command.command("show", examples=("python -m builders.commands.sources show imagenet",))
@click.argument("name", type=SourceName(), metavar="SOURCE")
@click.pass_context
def show(context: click.Context, name: str) -> None:
    """Show one source: its splits, licence, files with checksums, and the layouts that are recognised."""
    source = SOURCES[name]
    entry = describe_source(source)
    click.echo(f"{source.title}; {source.edition}")
    for benchmark, splits in entry.needed_by.items():
        click.echo(f"needed by  {benchmark}: {', '.join(splits)}")
    click.echo(f"licence    {source.licence.name} ({source.licence.url}): {source.licence.statement}")
    click.echo(f"publish    {MAY_PUBLISH[source.licence.publish]}")
    if source.obtain is not None:
        click.echo(f"page       {source.obtain.page}: {source.obtain.steps}")
        if source.obtain.is_plain:
            click.echo(f"get        {context.parent.command_path if context.parent else ''} get {name} --into DIR")
        if flag := source.obtain.mirror_flag(name):
            click.echo(f"Hub        {flag}")
        for file in source.obtain.files:
            size = f"{file.size:,} bytes" if file.exact_size else "size not published"
            digest = f"SHA-256 {file.sha256}" if file.sha256 else f"MD5 {file.md5}" if file.md5 else "no checksum"
            addresses = " or ".join((file.url, *file.mirrors))
            click.echo(f"file       {file.name} ({size}, {digest}){f' from {addresses}' if file.url else ''}")
    for layout in source.layouts:
        click.echo(f"layout     {layout}")


@command.command("get", examples=("python -m builders.commands.sources get cifar100 --into sources",))
@click.argument("names", type=SourceName(parts=True), nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Folder that gets a folder for each source.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be downloaded and whether the disk has room.")
@no_sync_option
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def get_command(names: tuple[str, ...], into: Path, dry_run: bool, quiet: bool) -> None:
    """Download and check the files of sources, and print their lines for sources.toml.

    SOURCE-PARTITION gets what one partition needs, such as places365-val. A cut download goes on where it was cut when
    the same command is run again, and a known mirror is asked where the owner's address gives nothing. Of a source
    that asks for an account the files and their checksums are printed; those that are there already are checked.
    """
    chosen = [_source_named(name) for name in dict.fromkeys(names)]
    with os_errors_as_build_errors("get the sources"):
        for caution in cautions([state for source in chosen for state in states(source, into)]):
            click.echo(caution, err=True)
        if dry_run:
            _dry_run(chosen, into)
            return
        remaining = get(chosen, into, lambda line: None if quiet else log(line), quiet=quiet)
    complete = [source for source in chosen if (found := states(source, into)) and all(state.done for state in found)]
    for line in dict.fromkeys(toml_line(source, into) for source in complete):
        click.echo(line)
    if remaining:
        after = "Then run the same command again to check them."
        raise BuildError("\n".join(["Some files must be downloaded by hand:", *remaining, after]))


def _dry_run(chosen: Sequence[Source], into: Path) -> None:
    files = [state for source in chosen for state in states(source, into)]
    lines = [["source", "file", "bytes", "state", "from"]]
    for state in files:
        size = f"{state.file.size:,}" if state.file.size else "not published"
        addresses = "" if state.done else " or ".join(state.addresses)
        lines.append([state.source.key, state.file.name, size, state.description, addresses])
    for line in aligned_lines(lines):
        click.echo(line)
    needed, free = needed_bytes(files), free_bytes(into)
    by_hand = sum(state.file.size for state in files if not state.done and not state.file.url)
    fits = "there is room" if needed + by_hand <= free else "there is no room"
    more = f", and {by_hand:,} more for what is downloaded by hand;" if by_hand else " and"
    click.echo(f"{needed:,} bytes of disk are needed{more} {free:,} are free in {into}: {fits}")
    for source in chosen:
        if source.obtain and not source.obtain.files:
            click.echo(f"{source.key}: by hand, from {source.obtain.page}: {source.obtain.steps}")
    click.echo("dry run: nothing was downloaded")


main = functools.partial(
    exit_code, command, stopped="stopped; run the same command again and it goes on where it stopped."
)
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
