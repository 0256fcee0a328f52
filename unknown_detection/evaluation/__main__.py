"""`python -m unknown_detection evaluate`: extracts features, scores detectors and computes the papers' figures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from builders.errors import BuildError
from unknown_detection.evaluation.errors import EXTRA, EvaluationError, not_installed_message
from unknown_detection.help import HelpGroup, as_helpful
from unknown_detection.terminal.command_line import run_command_line

# Commands are imported on use: `--help` works without torch and matplotlib.
COMMANDS = {
    "extract": "Extract features of a release with a model.",
    "score": "Fit detectors and score every row of a release.",
    "report": "Compute a paper's figures from scores: tables, plots, a summary.",
}


class _Commands(HelpGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return as_helpful(importlib.import_module(f"unknown_detection.evaluation.commands.{name}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if error.name not in EXTRA:
                raise
            raise EvaluationError(not_installed_message([error.name], "run this command")) from error
        except OSError as error:
            if error.filename is None:
                raise
            reason = (error.strerror or str(error)).lower()
            raise EvaluationError(
                f"Cannot read or write {error.filename}: {reason}. Fix this, or choose another path."
            ) from error


@click.command(
    "python -m unknown_detection evaluate",
    cls=_Commands,
    examples=("python -m unknown_detection evaluate score --features build/features --out build/scores.parquet",),
)
def command() -> None:
    """Evaluate detectors of unknowns on releases of unknown-detection benchmarks."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, of `sys.argv` or other arguments; return the exit code.

    It is 2 for an error that the user can fix, 130 after Ctrl-C, or the command's own.
    """
    return run_command_line(
        command, argv, (EvaluationError, BuildError), stopped="stopped; run the same command again."
    )


if __name__ == "__main__":
    sys.exit(main())
