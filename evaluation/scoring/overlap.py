"""Finds the unknown rows of a release whose class overlaps a known one, and counts what leaving them out removes.

The column `id_overlap` has the known class that the row's class is, holds or shows, and null where there is none. It
is said of classes. `known_object_seen` marks images of BROAD on which people saw an object of some known class; in
releases of before, `id_overlap` was the name of that column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.errors import EvaluationError, one_line
from evaluation.scoring.rows import Rows

ID_OVERLAP = "id_overlap"
OBJECT_SEEN = "known_object_seen"

SEEN = "an object of a known class"
"""Stands for the known class of an image on which people saw one without saying which."""


@dataclass(frozen=True)
class Overlapping:
    """A class of a split whose rows figures without overlap leave out.

    Attributes:
        protocol: the protocol that evaluates the split.
        config: the split's config.
        split: name of the split.
        class_id: the class in the source dataset.
        known: the known class that it overlaps, or `SEEN`.
        left_out: number of its rows that are left out.
        rows: number of rows of the split.
    """

    protocol: str
    config: str
    split: str
    class_id: str
    known: str
    left_out: int
    rows: int


def find_overlaps(rows: pa.Table) -> pa.ChunkedArray | pa.Array | None:
    """Return the known class that each row overlaps, an empty text where none; None if the release does not say.

    Args:
        rows: the n rows of a split.

    Raises:
        EvaluationError: a column is neither text nor boolean.
    """
    found = None
    for name in (OBJECT_SEEN, ID_OVERLAP):
        if name not in rows.column_names:
            continue
        values = rows[name]
        if pa.types.is_boolean(values.type):
            values = pc.if_else(pc.fill_null(values, False), SEEN, "")
        elif pa.types.is_null(values.type):
            values = values.cast(pa.string())
        elif not pa.types.is_string(values.type):
            raise EvaluationError(
                f"The column {name} of the release has the type {one_line(values.type, 40)}, instead of a known "
                "class's name or null. Run `python -m hf_scripts.verify` to find out what is wrong."
            )
        named = pc.fill_null(values, "")
        found = named if found is None else pc.if_else(pc.equal(named, ""), found, named)
    return found


def count_overlaps(rows: Rows, protocol: str) -> list[Overlapping]:
    """List the classes whose rows figures without overlap leave out, by split and class.

    Args:
        rows: the rows that a protocol evaluates.
        protocol: name of the protocol.
    """
    if rows.overlap is None:
        return []
    names, sizes = np.unique(np.char.add(np.char.add(rows.config, "/"), rows.split), return_counts=True)
    of_split = dict(zip(names.tolist(), sizes.tolist(), strict=True))
    gone = rows.where(rows.overlap != "")
    counts: dict[tuple[str, str, str, str], int] = {}
    columns = (gone.config, gone.split, gone.class_id, gone.overlap)
    for key in zip(*(np.asarray(column).tolist() for column in columns), strict=True):
        counts[key] = counts.get(key, 0) + 1
    return [
        Overlapping(protocol, config, split, class_id, known, count, of_split[f"{config}/{split}"])
        for (config, split, class_id, known), count in sorted(counts.items())
    ]


def describe_overlaps(found: Sequence[Overlapping]) -> str:
    """Summarize in a sentence or two how many rows figures without overlap leave out, and of which splits all.

    Args:
        found: classes of one or more protocols, which may share splits.
    """
    by_split: dict[str, dict[tuple[str, str], int]] = {}
    sizes: dict[str, int] = {}
    for one in found:
        key = f"{one.config}/{one.split}"
        by_split.setdefault(key, {})[one.class_id, one.known] = one.left_out
        sizes[key] = one.rows
    if not by_split:
        return "No evaluated row has a class that overlaps a known one, so figures without overlap equal those on all."
    rows = sum(sum(classes.values()) for classes in by_split.values())
    emptied = [key for key, classes in by_split.items() if sum(classes.values()) == sizes[key]]
    nothing = f" Nothing is left of {', '.join(emptied)}." if emptied else ""
    return (
        f"Figures without overlap leave out {rows:,} row{'s' * (rows > 1)} of {len(by_split)} "
        f"split{'s' * (len(by_split) > 1)} because their class is, holds or shows a known one, according to the "
        f"column {ID_OVERLAP}.{nothing}"
    )
