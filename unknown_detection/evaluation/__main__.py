"""`python -m unknown_detection evaluate`: extracts features, scores detectors and computes the papers' figures."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from builders.errors import BuildError
from unknown_detection.evaluation.commands import extract, report, run, score
from unknown_detection.evaluation.errors import EXTRA, EvaluationError, EvaluationWarning, not_installed_message
from unknown_detection.help import HelpGroup
from unknown_detection.terminal.command_line import run_command_line
from unknown_detection.terminal.progress import log


def with_flags(message: str, parameters: Sequence[click.Parameter]) -> str:
    """Name a command's flags in a message that names Python's parameters, as in `give weights= or batch_size=8`.

    Parameters that the command has not stay as they are, and so do tracebacks, all lines but the first, and what the
    code of a user is quoted with (`of_the_user`).
    """
    flags = {each.name: each for each in parameters if isinstance(each, click.Option)}

    def flag(match: re.Match[str]) -> str:
        option, value = flags.get(match["name"] or ""), match["value"]
        if option is None:
            return match[0]
        if value == "False" and option.secondary_opts:
            return option.secondary_opts[0]
        return option.opts[0] if value in ("True", "") else f"{option.opts[0]} {value}"

    said, newline, raised = message.partition("\n")
    named = r" raised .*?\. Mend it|\b(?P<name>[a-z_]+)=(?P<value>\w*)"
    return re.sub(named, flag, said) + newline + raised


class _Commands(HelpGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands]  # in the order of the steps

    def invoke(self, ctx: click.Context) -> object:
        def show(message: Warning | str, category: type[Warning], *where: Any, **how: Any) -> None:
            if issubclass(category, EvaluationWarning):
                log(f"warning: {self._in_flags(ctx, str(message))}")
            else:
                shown(message, category, *where, **how)

        shown = warnings.showwarning
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", EvaluationWarning)
                warnings.showwarning = show
                return super().invoke(ctx)
        except EvaluationError as error:
            raise EvaluationError(self._in_flags(ctx, str(error))) from error
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

    def _in_flags(self, ctx: click.Context, message: str) -> str:
        return with_flags(message, self.commands[str(ctx.invoked_subcommand)].params)


@click.command(
    "python -m unknown_detection evaluate",
    cls=_Commands,
    examples=("python -m unknown_detection evaluate score --features build/features --out build/scores.parquet",),
)
def command() -> None:
    """Evaluate detectors of unknowns on releases of unknown-detection benchmarks."""


for _module in (extract, score, run, report):
    command.add_command(_module.command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, of `sys.argv` or other arguments; return the exit code.

    It is 2 for an error that the user can fix, 130 after Ctrl-C, or the command's own.
    """
    return run_command_line(
        command, argv, (EvaluationError, BuildError), stopped="stopped; run the same command again."
    )


if __name__ == "__main__":
    sys.exit(main())
