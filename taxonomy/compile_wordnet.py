"""Compiles WordNet 3.0's noun files: `python -m taxonomy.compile_wordnet --wordnet DIR`.

Tested by `tests/taxonomy/test_main.py`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from taxonomy.errors import ERRORS
from taxonomy.wordnet.compile import compile_nouns
from taxonomy.wordnet.nouns import DATA_FILE
from unknown_detection.help import helpful
from unknown_detection.terminal.command_line import run_command_line


@helpful(
    "python -m taxonomy.compile_wordnet",
    examples=("python -m taxonomy.compile_wordnet --wordnet /usr/share/wordnet",),
)
@click.option(
    "--wordnet",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="WordNet 3.0's `dict` folder, which holds data.noun and index.noun.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(__file__).parent / "data" / DATA_FILE,
    show_default="the package's own file",
    metavar="FILE",
    help="Where the arrays are written.",
)
def command(wordnet: Path, out: Path) -> None:
    """Write WordNet 3.0's nouns as one array file."""
    arrays = compile_nouns(wordnet)
    temporary = out.with_name(out.name + ".tmp")
    with temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    temporary.replace(out)
    click.echo(f"{out}: {len(arrays['offsets']):,} synsets, {len(arrays['senses']):,} lemmas")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    return run_command_line(command, argv, ERRORS, stopped="stopped; run the same command again.")


if __name__ == "__main__":
    sys.exit(main())
