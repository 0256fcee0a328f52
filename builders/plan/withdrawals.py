"""Reads lists of withdrawn rows: ids of rows that may no longer be published, with the reasons."""

from __future__ import annotations

from pathlib import Path

from builders.errors import BuildError, one_line
from builders.storage.text_files import read_csv

_COLUMNS = ("id", "reason")

DUPLICATES = "duplicates"
"""The value that `--withdraw` accepts instead of a list; see `builders.pipeline.without_duplicates`."""


def read_withdrawn(path: Path) -> dict[str, str]:
    """Read a CSV with the columns `id` and `reason`; returns the reasons by row id.

    Raises:
        BuildError: the file does not exist or is not such a CSV, a line lacks the id or the reason, or an id has two
            reasons.
    """
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "no such file"
        raise BuildError(f"Cannot read {path}: {what}. Give --withdraw a CSV of id,reason, or {DUPLICATES}.")
    found: dict[str, str] = {}
    for line, row in read_csv(path, _COLUMNS, "Give a CSV in UTF-8 with these two columns."):
        if not row["id"] or not row["reason"]:
            raise BuildError(f"Line {line} of {path} lacks an id or a reason. Add it.")
        if found.setdefault(row["id"], row["reason"]) != row["reason"]:
            raise BuildError(f"Line {line} of {path} gives {one_line(row['id'])} a second reason. Keep one of them.")
    return found
