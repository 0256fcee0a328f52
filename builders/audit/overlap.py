"""Counts the rows of a release whose unknown class overlaps a known one, by its column `id_overlap`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.audit.chart import HeatCell, heat_table
from builders.audit.record import Findings
from builders.errors import BuildError
from builders.release.entries import Manifest
from builders.release.reader import read_index
from builders.release.schema import ID_OVERLAP
from taxonomy import tables
from unknown_detection.words import quantity

COLUMN = ID_OVERLAP.name

_MOST_NAMED = 3


@dataclass(frozen=True)
class SplitOverlap:
    """The overlapping rows of one split (`config/split`), counted by known class, unknown class and its name."""

    key: str
    rows: int
    classes: Counter[tuple[str, str, str]]

    @property
    def overlapping(self) -> int:
        """The number of rows whose class overlaps a known one."""
        return self.classes.total()


def count_overlap(root: Path, manifest: Manifest) -> list[SplitOverlap]:
    """Count the overlapping rows of every split with unknown rows and a column of overlaps, by pair of classes."""
    overlaps = []
    for key, config, split in manifest.splits():
        if not split.is_known and ID_OVERLAP in config.columns:
            columns = [COLUMN, "class_id", "class_name"]
            table = read_index(root, split, columns)
            counted = table.group_by(columns).aggregate([([], "count_all")]).to_pylist()
            classes = Counter(
                {tuple(row[name] for name in columns): row["count_all"] for row in counted if row[COLUMN]}
            )
            overlaps.append(SplitOverlap(key, table.num_rows, classes))
    if not overlaps:
        raise BuildError(
            f"No unknown split of {root} has the column {COLUMN}, so nothing is known of overlapping classes. Build "
            "it again with this version, into another --out."
        )
    return overlaps


def findings(overlaps: Sequence[SplitOverlap], manifest: Manifest) -> Findings:
    """Return the table, chart and summary of the overlap of some splits, and which classes could not be compared."""
    limits = [f"`{key}`: {remark}" for key, split in manifest.by_key().items() for remark in split.compared or ()]
    return Findings(
        key="overlap",
        summary=" ".join([_summary(overlaps), *limits]),
        splits=tuple(overlap.key for overlap in overlaps),
        columns=("split", "known_class", "unknown_class", "unknown_class_name", "rows", "rows_of_split"),
        rows=[
            (overlap.key, *classes, rows, overlap.rows)
            for overlap in overlaps
            for classes, rows in sorted(overlap.classes.items())
        ],
        picture=heat_table(
            "Rows whose class overlaps a known class",
            ["rows", "overlapping", "share", "known classes"],
            [(overlap.key, _cells(overlap)) for overlap in overlaps],
            "Colour: the share of the split's rows, from 0 (white) to 1 (red).",
        ),
    )


def _cells(overlap: SplitOverlap) -> list[HeatCell]:
    share = overlap.overlapping / overlap.rows if overlap.rows else 0.0
    overlapping = HeatCell(f"{overlap.overlapping:,}", share)
    known = HeatCell(f"{len({known for known, _, _ in overlap.classes}):,}")
    return [HeatCell(f"{overlap.rows:,}"), overlapping, HeatCell(f"{share:.1%}", share), known]


def _summary(overlaps: Sequence[SplitOverlap]) -> str:
    parts = [
        f"{split.overlapping:,} of {split.rows:,} rows of `{split.key}` ({_known_classes(split)})"
        for split in overlaps
        if split.overlapping
    ]
    if not parts:
        splits = f"the {quantity(len(overlaps), 'split')} with the column `{COLUMN}`"
        return f"Overlap: no row of {splits} has a known class there."
    remaining = len(overlaps) - len(parts)
    none = f"; none in {quantity(remaining, 'other split')} with that column" if remaining else ""
    listed = "; ".join(parts)
    return f"Overlap: the class of some unknown rows overlaps a known class (column `{COLUMN}`): {listed}{none}."


def _known_classes(split: SplitOverlap) -> str:
    known: Counter[str] = Counter()
    for (name, _, _), rows in split.classes.items():
        known[name] += rows
    first = sorted(known.items(), key=lambda item: (-item[1], item[0]))
    names = {row.wnid: f"{row.name} ({row.wnid})" for row in tables.imagenet1k()}  # an id says nothing to a reader
    shown = ", ".join(f"{names.get(name, name)} {rows:,}" for name, rows in first[:_MOST_NAMED])
    unnamed = len(first) - _MOST_NAMED
    return f"{shown}, and {unnamed:,} more known classes" if unnamed > 0 else shown
