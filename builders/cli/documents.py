"""What `--json` prints: one JSON document on stdout, and all else on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from builders.errors import BuildError

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
