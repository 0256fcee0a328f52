"""Reads lists of withdrawn rows: ids of rows that may no longer be published, with the reasons."""

from __future__ import annotations

import csv
from pathlib import Path

from builders.errors import BuildError

_COLUMNS = ("id", "reason")

DUPLICATES = "duplicates"
"""The value that `--withdraw` accepts instead of a list; see `builders.pipeline.without_duplicates`."""


def read_withdrawn(path: Path) -> dict[str, str]:
    """Read a CSV with the columns `id` and `reason`; returns the reasons by row id.

    Raises:
        BuildError: the file does not exist or is not such a CSV, or a line lacks the id or the reason.
    """
    if not path.is_file():
        raise BuildError(f"Cannot read {path}: no such file. Give --withdraw a CSV of id,reason, or {DUPLICATES}.")
    found: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            if not set(_COLUMNS) <= set(reader.fieldnames or ()):
                raise BuildError(
                    f"{path} lacks the columns id and reason (found in line 1: "
                    f"{', '.join(reader.fieldnames or ()) or 'nothing'}). Give a CSV with these two."
                )
            for row in reader:
                if not row["id"] or not row["reason"]:
                    raise BuildError(f"Line {reader.line_num} of {path} lacks an id or a reason. Add it.")
                found[row["id"]] = row["reason"]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BuildError(f"{path} is not a CSV in UTF-8 ({error}). Give one.") from error
    return found
