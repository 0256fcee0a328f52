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
    overlaps = []
    for key, split in manifest.by_key().items():
        columns = manifest.configs[key.partition("/")[0]].own_columns()
        if split.roles != (KNOWN_ROLE,) and any(column.name == COLUMN for column in columns):
            table = read_index(root, split, [COLUMN, "class_id", "class_name"])
            overlaps.append(SplitOverlap(key, table.num_rows, _classes(table)))
    if not overlaps:
        raise BuildError(
            f"No unknown split of {root} has the column {COLUMN}, so nothing is known of overlapping classes. Build "
            "it again with this version, into another --out."
        )
    return overlaps


def comparison_limits(manifest: Manifest) -> list[str]:
    """Return the limits of the comparison of classes, in sentences with their split."""
    return [f"`{key}`: {remark}" for key, split in manifest.by_key().items() for remark in split.compared or ()]


def findings(overlaps: list[SplitOverlap], limits: Sequence[str] = ()) -> Findings:
    """Return the table, chart and summary of the overlap of some splits; `limits` are the `comparison_limits`."""
    lines = [
        (overlap.key, known, unknown, name, rows, overlap.rows)
        for overlap in overlaps
        for (known, unknown, name), rows in sorted(overlap.classes.items())
    ]
    return Findings(
        key=KEY,
        summary=" ".join([_summary(overlaps), *limits]),
        splits=tuple(overlap.key for overlap in overlaps),
        columns=("split", "known_class", "unknown_class", "unknown_class_name", "rows", "rows_of_split"),
        rows=lines,
        picture=_chart(overlaps),
    )


def _classes(table: pa.Table) -> Counter[tuple[str, str, str]]:
    values = table[COLUMN].combine_chunks()
    known_class = pc.if_else(values, UNNAMED, "") if pa.types.is_boolean(values.type) else values.cast(pa.string())
    rows = table.set_column(0, COLUMN, pc.fill_null(known_class, ""))
    rows = rows.filter(pc.not_equal(rows[COLUMN], ""))
    grouped = rows.group_by([COLUMN, "class_id", "class_name"]).aggregate([([], "count_all")])
    return Counter(
        {
            (row[COLUMN], row["class_id"] or "", row["class_name"] or ""): row["count_all"]
            for row in grouped.to_pylist()
        }
    )


def _summary(overlaps: list[SplitOverlap]) -> str:
    overlapping = [overlap for overlap in overlaps if overlap.overlapping]
    if not overlapping:
        splits = f"the {quantity(len(overlaps), 'split')} with the column `{COLUMN}`"
        return f"Overlap: no row of {splits} has a known class there."
    remaining = len(overlaps) - len(overlapping)
    parts = [
        f"{split.overlapping:,} of {split.rows:,} rows of `{split.key}` ({_known_classes(split)})"
        for split in overlapping
    ]
    none = f"; none in {quantity(remaining, 'other split')} with that column" if remaining else ""
    listed = "; ".join(parts)
    return f"Overlap: the class of some unknown rows overlaps a known class (column `{COLUMN}`): {listed}{none}."


def _known_classes(split: SplitOverlap) -> str:
    known: Counter[str] = Counter()
    for (name, _, _), rows in split.classes.items():
        known[name] += rows
    first = sorted(known.items(), key=lambda item: (-item[1], item[0]))
    names = {
        row.wnid: f"{row.name} ({row.wnid})" for row in tables.imagenet1k()
    }  # a synset's id says nothing to a reader
    shown = ", ".join(f"{names.get(name, name)} {rows:,}" for name, rows in first[:_MOST_NAMED])
    unnamed = len(first) - _MOST_NAMED
    return f"{shown}, and {unnamed:,} more known classes" if unnamed > 0 else shown


def _chart(overlaps: list[SplitOverlap]) -> Image.Image:
    lines = []
    for overlap in overlaps:
        share = overlap.overlapping / overlap.rows if overlap.rows else 0.0
        known = len({name for name, _, _ in overlap.classes})
        lines.append(
            (
                overlap.key,
                [
                    HeatCell(f"{overlap.rows:,}"),
                    HeatCell(f"{overlap.overlapping:,}", share),
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
