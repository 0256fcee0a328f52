"""Runs a command line; an error that the user can fix is one line on stderr and an exit code, without a traceback."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import click

from unknown_detection.commands import as_started
from unknown_detection.help import usage_error
from unknown_detection.starting import STARTED
from unknown_detection.terminal.interrupts import run_stoppable
from unknown_detection.terminal.shortages import shortage
from unknown_detection.words import printable


def run_command_line(
    command: click.Command, argv: Sequence[str] | None, errors: tuple[type[Exception], ...], *, stopped: str
) -> int:
    """Run a command line and return its exit code: 2 for an error that the user can fix, 130 after Ctrl-C."""
    if STARTED:
        gc.freeze()  # what the command has imported is no garbage, and is not looked through again
        gc.enable()
    return run_stoppable(lambda: _run(command, argv, errors), stopped)


def _run(command: click.Command, argv: Sequence[str] | None, errors: tuple[type[Exception], ...]) -> int:
    try:
        return int(command.main(args=argv, prog_name=command.name, standalone_mode=False) or 0)
    except errors as error:
        click.echo(as_started(f"error: {printable(str(error), keep=chr(10))}"), err=True)
        return 2
    except click.ClickException as error:
        click.echo(usage_error(error), err=True)
        return error.exit_code
    except click.Abort as abort:  # what click makes of other interrupts, and of an EOFError, which is a defect
        raise abort.__cause__ or abort from None
    except Exception as error:
        if not (sentence := shortage(error)):
            raise
        click.echo(f"error: {sentence}", err=True)
        return 2
