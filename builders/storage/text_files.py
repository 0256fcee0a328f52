"""Reads untrusted texts and CSV files in UTF-8, with or without a byte order mark and with any line ends."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from builders.errors import BuildError, one_line
from builders.storage.files import open_buffered, require_regular

_LARGEST = 1 << 29
"""Bytes of the largest file. A list of all 1.8 million images of Places365 has 65 million."""

_LONGEST = 1 << 16
"""Characters of the longest line. The longest of Kaggle's table of ILSVRC2012 has a few thousand."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def read_text_lines(path: Path, advice: str) -> list[str]:
    """Read the lines of a text, without their ends; if it is no text, a `BuildError` ends with `advice`."""
    require_regular(path)
    with open_buffered(path) as opened:
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise BuildError(f"{path} has more than {_LARGEST:,} bytes, which is no list. {advice}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = data.count(b"\n", 0, error.start) + 1
        raise BuildError(f"Line {place} of {path} is not UTF-8 ({error.reason}). {advice}") from error
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST:
            raise BuildError(f"Line {number} of {path} has {len(line):,} characters. {advice}")
        if (match := _CONTROL.search(line)) is not None:
            raise BuildError(f"Line {number} of {path} has the control character {one_line(match[0])}. {advice}")
    return lines


def read_csv(path: Path, columns: Sequence[str], advice: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row of a CSV as line number and cells by column; a missing cell is an empty text.

    Raises `BuildError` as `read_text_lines`, and for what is no CSV, lacks a column, or has a cell with a line break.
    """
    reader = csv.DictReader(io.StringIO("\n".join(read_text_lines(path, advice))), strict=True)
    try:
        names = list(reader.fieldnames or ())
        if any(names.count(name) != 1 for name in columns):
            shown = one_line(", ".join(names)) or "nothing"
            raise BuildError(f"{path} lacks the columns {' and '.join(columns)} (found in line 1: {shown}). {advice}")
        for row in reader:
            cells = {name: row[name] or "" for name in columns}
            if None in row or any("\n" in cell for cell in cells.values()):
                raise BuildError(f"Line {reader.line_num} of {path} ends a row that is not one of line 1. {advice}")
            yield reader.line_num, cells
    except csv.Error as error:
        raise BuildError(f"Line {reader.reader.line_num} of {path} is not CSV ({error}). {advice}") from error
