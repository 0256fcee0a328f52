"""Reads and writes the tables of a release other than its shards: indexes and exclusions.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.release.schema import Column, arrow_schema
from builders.storage.files import atomic_path, open_buffered, read_regular, replace_unless_changed
from unknown_detection.csv_text import csv_text, plain_text

_MOST_DIGITS = 15
_SHOWN = 40


@dataclass(frozen=True)
class Exclusion:
    """A line of the exclusions: `images` images of a class, one image or one stray file, with rule and evidence.

    `split` is the key of the split, or of its part.
    """

    split: str
    source: str
    partition: str
    class_id: str
    class_name: str
    image: str
    images: int
    rule: str
    evidence: str


_COLUMNS = tuple(field.name for field in fields(Exclusion))


class TableError(BuildError):
    """A file is not a table of exclusions; `reason` says where in the file, and why."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Cannot read {path}: {reason}. Build or download the release again.")


def write_index(
    path: Path, rows: pa.Table, label_names: Sequence[str], columns: Sequence[Column] = (), *, demo: bool = False
) -> None:
    """Write the index of a split: its rows without images."""
    schema = arrow_schema(label_names, columns, image=False, demo=demo)
    table = pa.Table.from_arrays([rows[name].combine_chunks() for name in schema.names], schema=schema)
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_index=True, use_content_defined_chunking=True)


def write_excluded(path: Path, exclusions: Sequence[Exclusion], replaced: Sequence[str]) -> None:
    """Write a config's exclusions; lines of splits not in `replaced` are kept."""
    before = read_regular(path) if path.exists() else None
    lines = [] if before is None else [line for line in read_excluded(path) if line.split not in replaced]
    lines = sorted([*lines, *exclusions], key=lambda e: (e.split, e.source, e.partition, e.class_id, e.image, e.rule))
    text = csv_text([_COLUMNS, *map(attrgetter(*_COLUMNS), lines)])
    replace_unless_changed(path, text.encode("utf-8"), lambda data: data == before)


def read_excluded(path: Path) -> list[Exclusion]:
    """Read a table that `write_excluded` wrote; any other file is a `TableError`."""
    exclusions = []
    try:
        with io.TextIOWrapper(open_buffered(path), encoding="utf-8", newline="") as opened:
            reader = csv.DictReader(opened, strict=True)
            if sorted(reader.fieldnames or ()) != sorted(_COLUMNS):
                raise TableError(path, f"the columns are not {', '.join(_COLUMNS)}")
            for row in reader:
                if None in row or None in row.values():
                    raise TableError(path, f"line {reader.line_num} does not have {len(_COLUMNS)} values")
                cells = {name: plain_text(cell) for name, cell in row.items()}
                images = cells["images"]
                # int() also takes signs, blanks, underscores and digits of other scripts.
                if not (images.isascii() and images.isdecimal() and len(images) <= _MOST_DIGITS):
                    raise TableError(path, f"line {reader.line_num}: the number of images is {images[:_SHOWN]!r}")
                exclusions.append(Exclusion(**{**cells, "images": int(images)}))  # type: ignore[arg-type]
    except UnicodeDecodeError as error:
        raise TableError(path, "it is not UTF-8 text") from error
    except csv.Error as error:
        raise TableError(path, f"it is not CSV ({error})") from error
    return exclusions
