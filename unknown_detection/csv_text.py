"""Writes CSV in which no spreadsheet takes a text, such as the name of somebody's folder, for a formula.

A text that begins with one of `= + - @`, a tab or a carriage return (OWASP, "CSV Injection") gets an apostrophe before
it, unless it is a number; so does one with apostrophes before such a sign, so that `plain_text` restores every text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import IO

_FORMULA = re.compile("'*[=+\\-@\t\r]")
_MARKED = re.compile("'+[=+\\-@\t\r]")


def csv_text(lines: Iterable[Sequence[object]]) -> str:
    """Format lines of cells as CSV with Unix newlines."""
    text = io.StringIO()
    write_csv(text, lines)
    return text.getvalue()


def write_csv(file: IO[str], lines: Iterable[Sequence[object]]) -> None:
    """Write lines of cells as CSV with Unix newlines."""
    # Python quotes the characters of its line ending: without "\r" there, one in a name would begin a line.
    unix = SimpleNamespace(write=lambda line: file.write(f"{line[:-2]}\n"))
    csv.writer(unix, lineterminator="\r\n").writerows(map(_marked, line) for line in lines)


def plain_text(cell: str) -> str:
    """Return the text for which `write_csv` wrote this cell."""
    return cell[1:] if cell.startswith("'") and _MARKED.match(cell) else cell


def _marked(cell: object) -> object:
    if not isinstance(cell, str) or not _FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
