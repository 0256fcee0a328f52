"""Rows that may not be published any more: a list of ids, each with the reason."""

from __future__ import annotations

import csv
from pathlib import Path

from builders.errors import BuildError

_COLUMNS = ("id", "reason")

DUPLICATES = "duplicates"
"""What `--withdraw` takes instead of a list: see `builders.pipeline.without_duplicates`."""


def read_withdrawn(path: Path) -> dict[str, str]:
    """Read a CSV with the columns `id` and `reason`; returns the reasons by row id.

    Raises:
        BuildError: there is no such file, it is no such table, or a line has no id or no reason.
    """
    if not path.is_file():
        raise BuildError(f"Cannot read {path}: no such file. Give --withdraw a CSV of id,reason, or {DUPLICATES}.")
    found: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            if not set(_COLUMNS) <= set(reader.fieldnames or ()):
                raise BuildError(
                    f"expected the columns id and reason, found {', '.join(reader.fieldnames or ()) or 'nothing'} "
                    "in line 1 "
                    f"of {path}; give a CSV with these two."
                )
            for row in reader:
                if not row["id"] or not row["reason"]:
                    raise BuildError(
                        f"expected an id and a reason, found one of them missing in line {reader.line_num} of {path}; "
                        "add it."
                    )
                found[row["id"]] = row["reason"]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BuildError(f"expected a CSV in UTF-8, found another file ({error}) at {path}; correct it.") from error
    return found
