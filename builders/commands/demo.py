"""Write small demo copies of every source: `python -m builders.commands.demo DIR`.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import functools
import shlex
import sys
from pathlib import Path

import click

from builders.cli.console import exit_code
from builders.demo.write import write_demo
from builders.errors import os_errors_as_build_errors
from builders.registry import BENCHMARKS
from unknown_detection.help import helpful


@helpful("python -m builders.commands.demo", examples=("python -m builders.commands.demo demo",))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--seed", default=0, show_default=True, help="Seed of the pixels; file names do not depend on it.")
def command(folder: Path, seed: int) -> None:
    """Write small made-up copies of all sources to DIR, to try every command without a download."""
    with os_errors_as_build_errors("write the demo sources"):
        folders = write_demo(folder, seed=seed, progress=True)
    for key, source_folder in folders.items():
        click.echo(f"{key}: {source_folder}")
    for name, benchmark in BENCHMARKS.items():
        sources = [(f"--{source.key}", str(folder / source.key)) for source in benchmark.sources() if source.on_disk]
        flags = shlex.join(word for flag in sources for word in flag)
        click.echo(f"Next: python -m builders.{name}_benchmark {flags}")


main = functools.partial(exit_code, command, stopped="stopped; run the same command again to write the rest.")
"""Runs the command line; returns its exit code."""


if __name__ == "__main__":
    sys.exit(main())
