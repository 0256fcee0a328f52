"""Computes the tables by the rules, and writes them or compares them with the frozen files.

Tested by `tests/taxonomy/test_main.py`.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import astuple, fields
from importlib import resources
from pathlib import Path
from typing import Any

from taxonomy import overlaps
from taxonomy.decisions import TABLES, decisions_file
from taxonomy.rules import facets, facets_rules
from taxonomy.rules.overlaps import overlaps as compute_overlaps
from taxonomy.rules.unified import compute

FILES = (facets.OODNESS_FILE, *map(decisions_file, TABLES), overlaps.FILE)
"""Names of the files that are written."""


def contents() -> dict[str, bytes]:
    """Compute every file of `FILES`: CSV with a header, one line per class, LF at every line's end."""
    computed: list[Sequence[Any]] = [facets_rules.compute_oodness(), *map(compute, TABLES), compute_overlaps()]
    rendered = []
    for rows in computed:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([field.name for field in fields(rows[0])])
        writer.writerows(astuple(row) for row in rows)
        rendered.append(text.getvalue().encode())
    return dict(zip(FILES, rendered, strict=True))


def stale() -> list[str]:
    """Return the names of the frozen files that are missing or differ from the computed ones."""
    data = resources.files("taxonomy") / "data"
    return [
        name
        for name, content in contents().items()
        if not (data / name).is_file() or (data / name).read_bytes() != content
    ]


def write(folder: Path) -> list[Path]:
    """Write all files of `FILES` into a folder and return their paths."""
    for name, content in contents().items():
        (folder / name).write_bytes(content)
    return [folder / name for name in FILES]
