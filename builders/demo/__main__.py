"""Write small demo copies of every source: `python -m builders.demo DIR`.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from builders.cli.runner import exit_code
from builders.demo.write import write_demo
from builders.errors import explaining_disk

# The sources of each benchmark, in the order of its flags.
_BENCHMARKS = {
    "builders.imagenet_benchmark": ("imagenet", "food101", "caltech256", "places365"),
    "builders.cifar_benchmark": ("cifar100", "svhn", "lsun", "dtd", "imagenet"),
    "builders.facets_benchmark": ("places365", "svhn_full", "imagenet", "sun397"),
}


@click.command(
    name="python -m builders.demo",
    epilog="Example: python -m builders.demo demo",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--seed", default=0, show_default=True, help="Seed of the pixels; file names do not depend on it.")
def command(folder: Path, seed: int) -> None:
    """Write small made-up copies of all sources to DIR, to try every command without a download."""
    with explaining_disk("write the demo sources"):
        written = write_demo(folder, seed=seed, progress=True)
    for key, place in written.items():
        click.echo(f"{key}: {place}")
    for module, keys in _BENCHMARKS.items():
        flags = " ".join(f"--{key} {folder / key}" for key in keys)
        click.echo(f"Next: python -m {module} {flags}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return exit_code(command, argv, stopped="stopped; run the same command again to write the rest.")


if __name__ == "__main__":
    sys.exit(main())
