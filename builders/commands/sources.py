"""Show the sources and get their files: `python -m builders.commands.sources`.

Tested by `tests/builders/commands/test_sources.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from builders.cli.console import aligned_lines, exit_code
from builders.cli.source_flags import listed_sources, sources_option
from builders.commands.source_overview import HEADINGS, MAY_PUBLISH, describe_source
from builders.errors import BuildError, os_errors_as_build_errors
from builders.fetch.get import cautions, free_bytes, get, needed_bytes, states, toml_line
from builders.sources.base import Source
from builders.sources.registry import SOURCES
from unknown_detection.help import HelpGroup, no_sync_option


@click.group(
    name="python -m builders.commands.sources",
    invoke_without_command=True,
    cls=HelpGroup,
    examples=("python -m builders.commands.sources get cifar100 svhn dtd --into sources",),
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
        click.echo(json.dumps([entry.as_json() for entry in overviews], indent=2))
        return
    for line in aligned_lines([HEADINGS, *(entry.cells() for entry in overviews)]):
        click.echo(line)


@command.command("show", examples=("python -m builders.commands.sources show imagenet",))
@click.argument("name", type=click.Choice(list(SOURCES)), metavar="SOURCE")
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
        if source.obtain.mirror and source.obtain.mirror.at:
            gate = ", once your account has accepted its terms" if source.obtain.mirror.gated else ""
            click.echo(f"Hub        --{name} {source.obtain.mirror.at}{gate}")
        for file in source.obtain.files:
            size = f"{file.size:,} bytes" if file.exact_size else "size not published"
            digest = f"SHA-256 {file.sha256}" if file.sha256 else f"MD5 {file.md5}" if file.md5 else "no checksum"
            click.echo(f"file       {file.name} ({size}, {digest}){f' from {file.url}' if file.url else ''}")
    for layout in source.layouts:
        click.echo(f"layout     {layout}")


@command.command("get", examples=("python -m builders.commands.sources get cifar100 --into sources",))
@click.argument("names", type=click.Choice(list(SOURCES)), nargs=-1, required=True, metavar="SOURCE...")
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

    A cut download goes on where it was cut when the same command is run again. Of a source that asks for an account
    the files and their checksums are printed; those that are there already are checked.
    """
    chosen = [SOURCES[name] for name in dict.fromkeys(names)]
    with os_errors_as_build_errors("get the sources"):
        for caution in cautions([state for source in chosen for state in states(source, into)]):
            click.echo(caution, err=True)
        if dry_run:
            _dry_run(chosen, into)
            return
        remaining = get(chosen, into, lambda line: None if quiet else click.echo(line, err=True), quiet=quiet)
    for source in chosen:
        if source.obtain and source.obtain.files and all(state.done for state in states(source, into)):
            click.echo(toml_line(source, into))
    if remaining:
        after = "Then run the same command again to check them."
        raise BuildError("\n".join(["Some files must be downloaded by hand:", *remaining, after]))


def _dry_run(chosen: Sequence[Source], into: Path) -> None:
    files = [state for source in chosen for state in states(source, into)]
    lines = [("source", "file", "bytes", "state")]
    lines += [
        (
            file.source.key,
            file.file.name,
            f"{file.file.size:,}" if file.file.size else "not published",
            file.description,
        )
        for file in files
    ]
    for line in aligned_lines(lines):
        click.echo(line)
    needed, free = needed_bytes(files), free_bytes(into)
    fits = "there is room" if needed <= free else "there is no room"
    click.echo(f"{needed:,} bytes of disk are needed and {free:,} are free in {into}: {fits}")
    for source in chosen:
        if source.obtain and not source.obtain.files:
            click.echo(f"{source.key}: by hand, from {source.obtain.page}: {source.obtain.steps}")
    click.echo("dry run: nothing was downloaded")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; run the same command again and it goes on where it stopped.")


if __name__ == "__main__":
    sys.exit(main())
