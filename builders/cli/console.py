"""What commands share: how they run, and how tables and JSON documents are printed.

Tested by `tests/unknown_detection/terminal/test_interrupts.py` and `tests/builders/cli/test_console.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from builders.errors import BuildError, printable
from unknown_detection.commands import as_started
from unknown_detection.help import usage_error
from unknown_detection.terminal.interrupts import run_stoppable


def exit_code(command: click.Command, argv: Sequence[str] | None, *, stopped: str) -> int:
    """Run a command line; errors that the user can fix are printed without a traceback.

    Args:
        command: the command, named as `python -m` starts it; an integer that it returns is the exit code.
        argv: arguments; None for those of the process.
        stopped: the line after Ctrl-C.

    Returns:
        0 for success, 2 for an error that the user can fix, 130 after Ctrl-C, or the command's own code.
    """
    return run_stoppable(lambda: _run(command, argv), stopped)


def _run(command: click.Command, argv: Sequence[str] | None) -> int:
    try:
        return int(command.main(args=argv, prog_name=command.name, standalone_mode=False) or 0)
    except BuildError as error:
        click.echo(as_started(f"error: {printable(str(error), keep=chr(10))}"), err=True)
        return 2
    except click.ClickException as error:
        click.echo(usage_error(error), err=True)
        return 2
    except click.Abort as abort:  # what click makes of other interrupts, and of an EOFError, which is a defect
        raise abort.__cause__ or abort from None


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with words aligned left and numbers right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    numeric = [all(line[i].replace(",", "").lstrip("+-").isdigit() for line in lines[1:]) for i in range(len(widths))]
    return [
        "  ".join(
            cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]


SCHEMA = 1
"""The version of the documents: raised when a key is removed or changes its meaning, not when one is added."""


def json_option(*, only: str = "") -> Callable[[Any], Any]:
    """Return the flag `--json`; `only` is the flag without which it is refused (`check_json`)."""
    with_flag = f" (with {only})" if only else ""
    return click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document instead{with_flag}.")


def check_json(*, as_json: bool, dry_run: bool) -> None:
    """Refuse `--json` without `--dry-run`.

    Raises:
        BuildError: as said.
    """
    if as_json and not dry_run:
        raise BuildError("--json describes what --dry-run would do. Add --dry-run, or leave --json out.")


def print_document(command: str, values: Mapping[str, Any]) -> None:
    """Print a document.

    Args:
        command: the command's name, as `unknown-detection` has it.
        values: the other keys, which docs/command-line.md lists.
    """
    document = {"schema": SCHEMA, "command": command, **values}
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
