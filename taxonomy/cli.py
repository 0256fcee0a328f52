"""Code shared by the command lines of this package.

Tested by `tests/taxonomy/test_main.py`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from taxonomy.errors import TaxonomyError
from unknown_detection.help import usage_error
from unknown_detection.terminal.interrupts import run_stoppable


class Refusal(click.ClickException):
    """A user's error: its message goes to stderr and the exit code is 2."""

    exit_code = 2


@contextmanager
def refusing() -> Iterator[None]:
    """Show a wrong request, or a path that cannot be read or written, as a message instead of a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise  # `head` has seen enough: click ends the command without a word
    except (TaxonomyError, OSError) as error:
        raise Refusal(str(error)) from error


def exit_code(command: click.Command, argv: Sequence[str] | None) -> int:
    """Run a command line; what the user can fix is printed without a traceback.

    Returns:
        0 for success, 1 for tables that are out of date, 2 for an error that the user can fix, 130 after Ctrl-C.
    """
    return run_stoppable(lambda: _run(command, argv), "stopped; run the same command again.")


def _run(command: click.Command, argv: Sequence[str] | None) -> int:
    try:
        return int(command.main(args=argv, prog_name=command.name, standalone_mode=False) or 0)
    except click.ClickException as error:
        click.echo(usage_error(error), err=True)
        return error.exit_code
    except click.Abort as abort:  # what click makes of other interrupts, and of an EOFError, which is a defect
        raise abort.__cause__ or abort from None
