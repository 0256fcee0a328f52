"""The tables of a release besides its shards: indexes, exclusions, near-duplicates.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from builders.release.columns import Column
from builders.release.schema import arrow_schema
from builders.storage.atomic import atomic_path, write_text


@dataclass(frozen=True)
class Exclusion:
    """A rule that excludes `images` images of a class from a split, or one named image or stray file, with evidence.

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


def write_index(
    path: Path, rows: pa.Table, label_names: Sequence[str], columns: Sequence[Column] = (), *, demo: bool = False
) -> None:
    """Write the index of a split: its rows without images."""
    schema = arrow_schema(label_names, columns, image=False, demo=demo)
    table = pa.Table.from_arrays([rows[name].combine_chunks() for name in schema.names], schema=schema)
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_index=True)


@dataclass(frozen=True)
class NearDuplicate:
    """An image and the training image that it nearly repeats, in releases from before the table of duplicates."""

    split: str
    id: str
    near_duplicate_of: str
    distance: str


def write_excluded(path: Path, exclusions: Sequence[Exclusion], replaced: Sequence[str]) -> None:
    """Write a config's exclusions; lines of splits that are not in `replaced` are kept."""
    kept = [line for line in read_excluded(path) if line.split not in replaced] if path.exists() else []
    lines = sorted([*kept, *exclusions], key=lambda e: (e.split, e.source, e.partition, e.class_id, e.image, e.rule))
    _write_lines(path, Exclusion, lines)


def read_excluded(path: Path) -> list[Exclusion]:
    """Read a table that `write_excluded` wrote."""
    with path.open(encoding="utf-8", newline="") as opened:
        return [Exclusion(**{**row, "images": int(row["images"])}) for row in csv.DictReader(opened)]  # type: ignore[arg-type]


def write_audit(path: Path, pairs: Sequence[NearDuplicate], replaced: Sequence[str]) -> None:
    """Write a config's near-duplicates, each row's nearest first; lines of splits not in `replaced` are kept."""
    kept = [line for line in read_audit(path) if line.split not in replaced] if path.exists() else []
    lines = sorted([*kept, *pairs], key=lambda p: (p.split, p.id, float(p.distance), p.near_duplicate_of))
    _write_lines(path, NearDuplicate, lines)


def read_audit(path: Path) -> list[NearDuplicate]:
    """Read a table that `write_audit` wrote."""
    with path.open(encoding="utf-8", newline="") as opened:
        return [NearDuplicate(**row) for row in csv.DictReader(opened)]


def _write_lines(
    path: Path, kind: type[Exclusion | NearDuplicate], lines: Sequence[Exclusion | NearDuplicate]
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(kind)])
    writer.writerows(list(asdict(line).values()) for line in lines)
    write_text(path, text.getvalue())
