"""Runs the commands of builders and hf_scripts, and prints their tables and JSON documents.

Tested by `tests/unknown_detection/terminal/test_interrupts.py` and `tests/builders/cli/test_console.py`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from builders.errors import BuildError
from unknown_detection.terminal.command_line import run_command_line

exit_code = functools.partial(run_command_line, errors=(BuildError,))
"""Runs a command line whose errors for the user are `BuildError`s; returns its exit code."""


def aligned_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with words aligned left and numbers right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    numeric = [all(line[i].replace(",", "").lstrip("+-").isdigit() for line in rows[1:]) for i in range(len(widths))]
    return [
        "  ".join(
            cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in rows
    ]


SCHEMA = 1
"""The version of the documents: raised when a key is removed or changes its meaning, not when one is added."""


def json_option(*, only: str = "") -> Callable[[Any], Any]:
    """Return the flag `--json`; `only` is the flag without which it is refused (`check_json`)."""
    with_flag = f" (with {only})" if only else ""
    return click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document instead{with_flag}.")


def check_json(*, as_json: bool, dry_run: bool) -> None:
    """Refuse `--json` without `--dry-run`."""
    if as_json and not dry_run:
        raise BuildError("--json describes what --dry-run would do. Add --dry-run, or leave --json out.")


def print_document(command: str, values: Mapping[str, Any]) -> None:
    """Print a document."""
    document = {"schema": SCHEMA, "command": command, **values}
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
