"""Runs a command line: an exit code, and one sentence for what the user can mend.

Tested by `tests/builders/pipeline/test_command.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from builders.errors import BuildError


def exit_code(command: click.Command, argv: Sequence[str] | None, *, stopped: str) -> int:
    """Run a command line without tracebacks for what the user can mend.

    Args:
        command: what to run; an integer that it returns is the exit code.
        argv: arguments; None takes the process's.
        stopped: what to say after Ctrl-C.

    Returns:
        0 when all went well, 2 for anything the user can mend, 130 after Ctrl-C, or the command's own code.
    """
    try:
        return int(command.main(args=argv, standalone_mode=False) or 0)
    except BuildError as error:
        click.echo(f"error: {error}", err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo(stopped, err=True)
        return 130
