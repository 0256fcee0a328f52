"""Writes one HTML page about a release: `python -m builders.commands.report RELEASE`.

Tested by `tests/builders/commands/test_report.py`.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import cast, get_args

import click

from builders.audit.record import audited
from builders.cli.console import exit_code
from builders.errors import BuildError
from builders.report.pictures import PictureChoice
from builders.storage.files import write_text
from builders.storage.paths import LOCAL, PathType, system_path
from unknown_detection.help import helpful
from unknown_detection.words import byte_text


@helpful(
    "python -m builders.commands.report",
    examples=("python -m builders.commands.report build/unknown-detection --out page.html",),
)
@click.argument("release", metavar="RELEASE", type=PathType())
@click.option(
    "--out",
    type=LOCAL,
    metavar="FILE",
    help="The page. It lies outside the release, so that it is never published.  [default: RELEASE.html, beside it]"
    " Needed where the release is an address.",
)
@click.option(
    "--pictures",
    type=click.Choice(get_args(PictureChoice)),
    default="all",
    show_default=True,
    help="publishable: only of sources whose images anybody may be shown, for a page to pass on. none: no pictures.",
)
def command(release: Path, out: Path | None, pictures: str) -> None:
    """Write one HTML page about the release in RELEASE, which needs no other file and no network.

    It has each config's counts beside the published ones, sample images, all classes with what was left out and why,
    audits, duplicates, digests, licences, and how to load and rebuild the release.
    """
    from builders.report.page import page

    if out is None and system_path(release) is None:
        raise BuildError(f"The page of {release} lies on this machine, and needs a name. Give one with --out.")
    with audited(release, dry_run=True, doing="write the page") as manifest:
        full = release.resolve()
        path = full.with_name(f"{full.name}.html") if out is None else out
        _check_out(full, path)
        text = page(release, manifest, cast(PictureChoice, pictures))
        write_text(path, text)
    click.echo(f"wrote {path} ({byte_text(len(text.encode()))}): open it in a browser")


def _check_out(release: Path, out: Path) -> None:
    """Refuse a page inside the release, which is what is published, and a folder."""
    if release in out.resolve().parents:
        raise BuildError(
            f"{out} lies inside the release {release}, and the page may show images that must not be published. Give "
            "another --out."
        )
    if out.is_dir():
        raise BuildError(f"{out} is a folder. Give the name of a file with --out.")


main = functools.partial(exit_code, command, stopped="stopped; no page was written.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
