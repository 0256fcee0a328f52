"""Render the dataset card of a release, or check that it is up to date: `python -m hf_scripts.card DIR`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from builders.cli.runner import exit_code
from builders.errors import os_errors_as_build_errors
from builders.release import card
from builders.release.layout import Layout
from builders.release.manifest import read_manifest
from unknown_detection.commands import as_started
from unknown_detection.help import helpful


@helpful("python -m hf_scripts.card", examples=("python -m hf_scripts.card build/unknown-detection --check",))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the card is out of date.")
def command(folder: Path, check: bool) -> int:
    """Render the dataset card of the release in DIR from its manifest, and list it there.

    A build does this by itself; use it for a release that an older version has built.
    """
    layout = Layout(folder)
    with os_errors_as_build_errors("read the release and write its card"):
        manifest = read_manifest(folder)
        text = card.render(manifest)
        found = layout.card.read_text(encoding="utf-8") if layout.card.is_file() else ""
        if found == text:
            click.echo(f"{layout.card} is up to date")
            return 0
        if check:
            at = next((i for i, (a, b) in enumerate(zip(found, text, strict=False)) if a != b), len(found))
            line = text.count("\n", 0, at) + 1
            render = as_started("python -m hf_scripts.card")
            click.echo(f"{layout.card} is out of date from line {line} on; render it with {render} {folder}")
            return 1
        card.write_card_and_manifest(layout, manifest)
    click.echo(f"wrote {layout.card}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; nothing was changed.")


if __name__ == "__main__":
    sys.exit(main())
