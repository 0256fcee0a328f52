"""Write the decision tables, or compare them with what the rules give today."""

import csv
import io
from dataclasses import astuple, fields
from importlib import resources
from pathlib import Path

from taxonomy.decisions import TABLES, Decision, file_name
from taxonomy.rules import compute


def render(decisions: tuple[Decision, ...]) -> str:
    """Return decisions as the text of their CSV file: a header, one row per class, LF at every line's end."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Decision)])
    writer.writerows(astuple(decision) for decision in decisions)
    return text.getvalue()


def stale() -> list[str]:
    """Return the decision tables whose frozen file is missing or differs from what the rules give."""
    data = resources.files("taxonomy") / "data"
    return [
        table
        for table in TABLES
        if not (data / file_name(table)).is_file()
        or (data / file_name(table)).read_bytes() != render(compute(table)).encode()
    ]


def write(folder: Path) -> list[Path]:
    """Write all decision tables into a folder and return their paths."""
    paths = []
    for table in TABLES:
        path = folder / file_name(table)
        path.write_bytes(render(compute(table)).encode())
        paths.append(path)
    return paths
