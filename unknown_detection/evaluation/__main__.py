"""`python -m unknown_detection evaluate`: extracts features, scores detectors and computes the papers' figures."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from builders.errors import BuildError
from unknown_detection.evaluation.errors import EXTRA, EvaluationError, EvaluationWarning, not_installed_message
from unknown_detection.help import HelpGroup, as_helpful
from unknown_detection.terminal.command_line import run_command_line
from unknown_detection.terminal.progress import log

# Commands are imported on use: `--help` works without torch and matplotlib.
COMMANDS = {
    "extract": "Extract features of a release with a model.",
    "score": "Fit detectors and score every row of a release.",
    "report": "Compute a paper's figures from scores: tables, plots, a summary.",
}


def with_flags(message: str, parameters: Sequence[click.Parameter]) -> str:
    """Name a command's options in a message that names Python's parameters, as in `give weights= or pretrained=True`.

    Parameters that the command has not stay as they are.
    """
    flags = {each.name: each.opts[0] for each in parameters if isinstance(each, click.Option)}
    return re.sub(r"\b([a-z_]+)=(True\b)?(?![\w'\"])", lambda match: flags.get(match[1], match[0]), message)


_show_others = warnings.showwarning


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **others: Any) -> None:
    """Show a warning of ours as a line; it has no place in a program of the user's."""
    if issubclass(category, EvaluationWarning):
        log(f"warning: {message}")
    else:
        _show_others(message, category, *place, **others)


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
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except EvaluationError as error:
            name = ctx.invoked_subcommand
            command = self.get_command(ctx, name) if name else None
            raise EvaluationError(with_flags(str(error), command.params if command else ())) from error
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
