"""Render the files that a release's manifest determines, or check them: `python -m hf_scripts.card DIR`."""

from __future__ import annotations

import functools
import itertools
import sys
from pathlib import Path

import click

from builders.card import card
from builders.cli.console import exit_code
from builders.errors import os_errors_as_build_errors
from builders.release.layout import CARD, CROISSANT, LICENCES, Layout
from builders.release.manifest import read_manifest
from builders.storage.files import read_regular
from builders.storage.paths import PathType
from unknown_detection.commands import as_started
from unknown_detection.help import helpful


@helpful("python -m hf_scripts.card", examples=("python -m hf_scripts.card build/unknown-detection --check",))
@click.argument("folder", metavar="DIR", type=PathType())
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if one is out of date.")
def command(folder: Path, check: bool) -> int:
    """Write README.md, croissant.json and LICENSE.md of the release in DIR, and list them in its manifest.

    All three follow from the manifest.

    A build does this by itself; use it for a release that an older version has built.
    """
    layout = Layout(folder)
    with os_errors_as_build_errors("read the release and write its card"):
        manifest = read_manifest(folder)
        texts = card.rendered(manifest)
        outdated = [line for path, text in texts.items() if (line := _outdated(layout.inside(path), text))]
        if not outdated:
            click.echo(f"{layout.inside(CARD)}, {CROISSANT} and {LICENCES} are up to date")
            return 0
        if check:
            render = as_started("python -m hf_scripts.card")
            for line in outdated:
                click.echo(f"{line}; render it with {render} {folder}")
            return 1
        card.write_card_and_manifest(layout, manifest, manifest)
    click.echo(f"wrote {layout.inside(CARD)}, {CROISSANT} and {LICENCES}")
    return 0


def _outdated(path: Path, text: str) -> str:
    """Return a sentence on where a file differs from its text; empty if it does not."""
    if not path.is_file():
        return f"{path} is missing"
    current = read_regular(path).decode(errors="replace")  # a byte that is no UTF-8 differs, as any other edit does
    if current == text:
        return ""
    lines = itertools.zip_longest(current.split("\n"), text.split("\n"))
    number = next(number for number, (line, expected) in enumerate(lines, start=1) if line != expected)
    return f"{path} is out of date from line {number} on"


main = functools.partial(exit_code, command, stopped="stopped; nothing was changed.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
