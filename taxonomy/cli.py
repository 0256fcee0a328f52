"""Code shared by the command lines of this package.

Tested by `tests/taxonomy/test_main.py`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from taxonomy.errors import TaxonomyError
from terminal.interrupts import run_stoppable

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}


class Refusal(click.ClickException):
    """A user's error: its message goes to stderr and the exit code is 2."""

    exit_code = 2


@contextmanager
def refusing() -> Iterator[None]:
    """Show a wrong request, or a path that cannot be read or written, as a message instead of a traceback."""
    try:
        yield
    except (TaxonomyError, OSError) as error:
        raise Refusal(str(error)) from error


def start(command: click.Command, name: str) -> None:
    """Run a command as the process's own, and end the process.

    Args:
        command: the command.
        name: how the user calls it.
    """
    sys.exit(run_stoppable(lambda: command.main(prog_name=name), "stopped; run the same command again."))
