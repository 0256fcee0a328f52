"""`python -m unknown_detection evaluate`: extracts features, scores detectors and computes the papers' figures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from builders.errors import BuildError
from unknown_detection.commands import as_started
from unknown_detection.evaluation.errors import EXTRA, EvaluationError, not_installed_message
from unknown_detection.help import HelpGroup, as_helpful, usage_error
from unknown_detection.terminal.interrupts import run_stoppable

# Commands are imported on use: `--help` works without torch and matplotlib.
COMMANDS = {
    "extract": "Extract features of a release with a model.",
    "score": "Fit detectors and score every row of a release.",
    "report": "Compute a paper's figures from scores: tables, plots, a summary.",
    "compare": "Compare the figures of two reports on the same release.",
    "graph": "Draw the graph of predicted classes, as in the FACETS paper.",
    "softmax": "Map the mean softmax outputs of each class of unknowns.",
    "demo": "Run every step on a small release of real digits.",
}


class _Commands(HelpGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"unknown_detection.evaluation.commands.{name}").command
        return as_helpful(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_Commands, examples=("python -m unknown_detection evaluate demo --out build/evaluation-demo",))
def command() -> None:
    """Evaluate detectors of unknowns on releases of unknown-detection benchmarks."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: arguments; None uses `sys.argv`.

    Returns:
        0 on success, 2 for an error that the user can fix, 130 after Ctrl-C, or the command's own code.
    """
    return run_stoppable(lambda: _run(argv), "stopped; run the same command again.")


def _run(argv: Sequence[str] | None) -> int:
    try:
        return int(
            command.main(args=argv, prog_name="python -m unknown_detection evaluate", standalone_mode=False) or 0
        )
    except (EvaluationError, BuildError) as error:
        said = as_started(f"error: {error}")
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        said = f"error: {not_installed_message([error.name], 'run this command')}"
    except click.ClickException as error:
        said = usage_error(error)
    except OSError as error:
        if error.filename is None:
            raise
        reason = (error.strerror or str(error)).lower()
        said = f"error: Cannot read or write {error.filename}: {reason}. Fix this, or choose another path."
    except click.Abort as abort:  # what click makes of other interrupts, and of an EOFError, which is a defect
        raise abort.__cause__ or abort from None
    click.echo(said, err=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
