"""Reads and writes the tables of a release other than its shards: indexes and exclusions.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.release.entries import ConfigEntry
from builders.release.schema import Column, arrow_schema
from builders.storage.files import atomic_path, read_regular, replace_unless_changed
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


def write_excluded(
    path: Path,
    exclusions: Sequence[Exclusion],
    replaced: Sequence[str],
    others: Mapping[str, Mapping[str, int] | None] | None = None,
) -> None:
    """Write a config's exclusions; lines of splits not in `replaced` are kept.

    `others` are the parts whose lines may be kept, by default any, with the images by rule that the manifest counts;
    those that it does not list yet are of a run that has not ended. The table itself need not be the manifest's, which
    a killed run has not written.
    """
    before = read_regular(path) if path.exists() else None
    lines = [] if before is None else [line for line in _parsed(path, before) if line.split not in replaced]
    if others is not None:
        lines = [line for line in lines if line.split in others]
        counts = images_by_rule(lines)
        for key, counted in others.items():
            if key not in replaced and counted is not None and counts[key] != Counter(counted):
                raise BuildError(
                    f"{path} has other exclusions of {key} than manifest.json counts. Restore the table, or build "
                    "that split again, too."
                )
    lines = sorted([*lines, *exclusions], key=lambda e: (e.split, e.source, e.partition, e.class_id, e.image, e.rule))
    text = csv_text([_COLUMNS, *map(attrgetter(*_COLUMNS), lines)])
    replace_unless_changed(path, text.encode("utf-8"), lambda data: data == before)


def images_by_rule(lines: Iterable[Exclusion]) -> dict[str, Counter[str]]:
    """Count the images that are left out, by part and rule; a part without any has an empty counter."""
    counts = defaultdict[str, Counter[str]](Counter)
    for line in lines:
        if line.images:
            counts[line.split][line.rule] += line.images
    return counts


def parts_beside(declared: Iterable[str], before: ConfigEntry | None) -> dict[str, Mapping[str, int] | None]:
    """Return the parts of a config whose exclusions may be in its table, with the counts of those that it lists."""
    listed = [part for split in before.splits.values() for part in split.parts] if before is not None else []
    return {**dict.fromkeys(declared), **{part.key: part.excluded_by_rule for part in listed}}


def read_excluded(path: Path, sha256: str = "") -> list[Exclusion]:
    """Read a table that `write_excluded` wrote, with the digest that is listed; any other file is a `TableError`."""
    data = read_regular(path)
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise TableError(path, "its SHA-256 is not the one that manifest.json lists")
    return _parsed(path, data)


def _parsed(path: Path, data: bytes) -> list[Exclusion]:
    exclusions = []
    try:
        with io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="") as opened:
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
