"""Counts the rows of a release whose unknown class overlaps a known one, by its column `id_overlap`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.audit.chart import HeatCell, heat_table
from builders.audit.record import Findings
from builders.errors import BuildError
from builders.release.duplicates import KNOWN_ROLE
from builders.release.entries import Manifest
from builders.release.reader import read_index
from taxonomy import tables
from unknown_detection.words import quantity

COLUMN = "id_overlap"
"""Names the known class that an unknown row's class overlaps, or tells that it overlaps one; no value where none."""

KEY = "overlap"

UNNAMED = "(not named)"
"""Stands for the known class where the column only tells that there is one."""

_MOST_NAMED = 3


@dataclass(frozen=True)
class SplitOverlap:
    """The overlap of one split (`config/split`): its number of rows, and rows by known and unknown class."""

    key: str
    rows: int
    classes: Counter[tuple[str, str, str]]

    @property
    def overlapping(self) -> int:
        """Rows whose class overlaps a known one."""
        return self.classes.total()


def count_overlap(root: Path, manifest: Manifest) -> list[SplitOverlap]:
    """Count the overlapping rows of every split with unknown rows and the column, by known and unknown class.

    Raises:
        BuildError: no split has the column, or an index cannot be read.
    """
    found = []
    for key, split in manifest.by_key().items():
        columns = manifest.configs[key.partition("/")[0]].own_columns()
        if split.roles != (KNOWN_ROLE,) and any(column.name == COLUMN for column in columns):
            table = read_index(root, split, [COLUMN, "class_id", "class_name"])
            found.append(SplitOverlap(key, table.num_rows, _classes(table)))
    if not found:
        raise BuildError(
            f"No unknown split of {root} has the column {COLUMN}, so nothing is known of overlapping classes. Build "
            "it again with this version, into another --out."
        )
    return found


def comparison_limits(manifest: Manifest) -> list[str]:
    """Limits of the comparison of classes, in sentences with their split."""
    return [f"`{key}`: {remark}" for key, split in manifest.by_key().items() for remark in split.compared or ()]


def findings(counted: list[SplitOverlap], said: Sequence[str] = ()) -> Findings:
    """The table, chart and summary of the overlap of some splits; `said` are the `comparison_limits`."""
    lines = [
        (split.key, known, unknown, name, rows, split.rows)
        for split in counted
        for (known, unknown, name), rows in sorted(split.classes.items())
    ]
    return Findings(
        key=KEY,
        summary=" ".join([_summary(counted), *said]),
        splits=tuple(split.key for split in counted),
        columns=("split", "known_class", "unknown_class", "unknown_class_name", "rows", "rows_of_split"),
        rows=lines,
        picture=_chart(counted),
    )


def _classes(table: pa.Table) -> Counter[tuple[str, str, str]]:
    values = table[COLUMN].combine_chunks()
    named = pc.if_else(values, UNNAMED, "") if pa.types.is_boolean(values.type) else values.cast(pa.string())
    rows = table.set_column(0, COLUMN, pc.fill_null(named, ""))
    rows = rows.filter(pc.not_equal(rows[COLUMN], ""))
    grouped = rows.group_by([COLUMN, "class_id", "class_name"]).aggregate([([], "count_all")])
    return Counter(
        {
            (row[COLUMN], row["class_id"] or "", row["class_name"] or ""): row["count_all"]
            for row in grouped.to_pylist()
        }
    )


def _summary(counted: list[SplitOverlap]) -> str:
    some = [split for split in counted if split.overlapping]
    if not some:
        splits = f"the {quantity(len(counted), 'split')} with the column `{COLUMN}`"
        return f"Overlap: no row of {splits} has a known class there."
    others = len(counted) - len(some)
    parts = [f"{split.overlapping:,} of {split.rows:,} rows of `{split.key}` ({_named(split)})" for split in some]
    none = f"; none in {quantity(others, 'other split')} with that column" if others else ""
    listed = "; ".join(parts)
    return f"Overlap: the class of some unknown rows overlaps a known class (column `{COLUMN}`): {listed}{none}."


def _named(split: SplitOverlap) -> str:
    known: Counter[str] = Counter()
    for (name, _, _), rows in split.classes.items():
        known[name] += rows
    first = sorted(known.items(), key=lambda item: (-item[1], item[0]))
    names = {
        row.wnid: f"{row.name} ({row.wnid})" for row in tables.imagenet1k()
    }  # a synset's id says nothing to a reader
    shown = ", ".join(f"{names.get(name, name)} {rows:,}" for name, rows in first[:_MOST_NAMED])
    others = len(first) - _MOST_NAMED
    return f"{shown}, and {others:,} more known classes" if others > 0 else shown


def _chart(counted: list[SplitOverlap]) -> Image.Image:
    lines = []
    for split in counted:
        share = split.overlapping / split.rows if split.rows else 0.0
        known = len({name for name, _, _ in split.classes})
        lines.append(
            (
                split.key,
                [
                    HeatCell(f"{split.rows:,}"),
                    HeatCell(f"{split.overlapping:,}", share),
                    HeatCell(f"{share:.1%}", share),
                    HeatCell(f"{known:,}"),
                ],
            )
        )
    return heat_table(
        "Rows whose class overlaps a known class",
        ["rows", "overlapping", "share", "known classes"],
        lines,
        "Colour: the share of the split's rows, from 0 (white) to 1 (red).",
    )
