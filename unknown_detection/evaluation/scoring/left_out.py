"""Finds and counts the rows that figures without duplicates or without overlap leave out.

A release has one table of pairs, the config `duplicates` with the split `pairs`. Each line is a pair of rows whose
images are identical (distance 0) or nearly so.

The column `id_overlap` has the known class that the row's class is, holds or shows, and null where there is none. It
is said of classes. `known_object_seen` marks images of BROAD on which people saw an object of some known class.

Tested by `tests/evaluation/scoring/test_duplicates.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation.errors import EvaluationError, one_line
from unknown_detection.evaluation.scoring.rows import Rows
from unknown_detection.words import quantity

ID_OVERLAP = "id_overlap"
OBJECT_SEEN = "known_object_seen"
SEEN = "an object of a known class"
"""Stands for the known class of an image on which people saw one without saying which."""


@dataclass(frozen=True)
class LeftOut:
    """Counts of a split's rows that figures without duplicates leave out, for the protocol that evaluates it.

    `made_from_duplicates` are further rows made from a duplicate's source image, or its clean originals.
    """

    protocol: str
    config: str
    split: str
    rows: int
    duplicates: int
    made_from_duplicates: int

    @property
    def left_out(self) -> int:
        """Number of rows left out."""
        return self.duplicates + self.made_from_duplicates

    @property
    def place(self) -> tuple[str, ...]:
        """The protocol and the rows that the counts are of."""
        return self.protocol, self.config, self.split


@dataclass(frozen=True)
class Overlapping:
    """A class of a split (`class_id` of the source) whose rows figures without overlap leave out.

    `known` is the known class that it overlaps, or `SEEN`; `rows` are those of the whole split.
    """

    protocol: str
    config: str
    split: str
    class_id: str
    known: str
    left_out: int
    rows: int

    @property
    def place(self) -> tuple[str, ...]:
        """The protocol and the rows that the counts are of."""
        return self.protocol, self.config, self.split, self.class_id, self.known


def find_overlaps(rows: pa.Table) -> pa.ChunkedArray | pa.Array | None:
    """Return the known class that each row of a split overlaps, empty where none; None without such a column."""
    overlaps = None
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
        overlaps = named if overlaps is None else pc.if_else(pc.equal(named, ""), overlaps, named)
    return overlaps


def made_from_duplicates(rows: Rows) -> npt.NDArray[np.bool_]:
    """Find rows that are not duplicates themselves, but share their source image with one, shape (n,).

    A shifted row and its clean original have the same `source_id` and different ids; an evaluation of the shift needs
    both, so both are left out. The same image in another config (the same id) is decided by that config's own pairs.
    """
    assert rows.duplicate is not None
    if not rows.duplicate.any():
        return np.zeros(len(rows), dtype=np.bool_)
    return _among(rows.source_id, rows.source_id[rows.duplicate]) & ~_among(rows.id, rows.id[rows.duplicate])


def count_left_out(rows: Rows, protocol: str) -> list[LeftOut]:
    """Count the rows of each split that figures without duplicates leave out."""
    if rows.duplicate is None or not rows.duplicate.any():
        return []
    selections = (rows, rows.where(rows.duplicate), rows.where(made_from_duplicates(rows)))
    total, duplicates, made_from = (_count(selection, "config", "split") for selection in selections)
    return [
        LeftOut(protocol, config, split, total[config, split], duplicates[config, split], made_from[config, split])
        for config, split in sorted(duplicates | made_from)
    ]


def count_overlaps(rows: Rows, protocol: str) -> list[Overlapping]:
    """List the classes whose rows figures without overlap leave out, by split and class."""
    if rows.overlap is None:
        return []
    total = _count(rows, "config", "split")
    counts = _count(rows.where(rows.overlap != ""), "config", "split", "class_id", "overlap")
    return [
        Overlapping(protocol, config, split, class_id, known, count, total[config, split])
        for (config, split, class_id, known), count in sorted(counts.items())
    ]


def describe_left_out(left_out: Sequence[LeftOut]) -> str:
    """Summarize in a sentence or two how many rows figures without duplicates leave out, and of which splits all."""
    if not left_out:
        return "None of the evaluated rows is a duplicate, so figures without duplicates equal those on all rows."
    derived = any(counts.made_from_duplicates for counts in left_out)
    why = f"they appear in a pair of the release's table of duplicates{' or are made from rows that do' * derived}"
    return _described("duplicates", why, {(counts.config, counts.split): counts for counts in left_out})


def describe_overlaps(overlapping: Sequence[Overlapping]) -> str:
    """Summarize in a sentence or two how many rows figures without overlap leave out, and of which splits all."""
    if not overlapping:
        return (
            f"No evaluated row has a class that overlaps a known one according to the column {ID_OVERLAP}, so figures "
            "without overlap equal those on all."
        )
    why = f"their class is, holds or shows a known one, according to the column {ID_OVERLAP}"
    return _described("overlap", why, {overlap.place[1:]: overlap for overlap in overlapping})


def _described(what: str, why: str, counted: Mapping[object, LeftOut | Overlapping]) -> str:
    """Add up counts, each of which is of other rows."""
    remaining = {f"{counts.config}/{counts.split}": counts.rows for counts in counted.values()}
    for counts in counted.values():
        remaining[f"{counts.config}/{counts.split}"] -= counts.left_out
    rows = quantity(sum(counts.left_out for counts in counted.values()), "row")
    emptied = [split for split, count in remaining.items() if not count]
    sentence = f"Figures without {what} leave out {rows} of {quantity(len(remaining), 'split')} because {why}."
    return f"{sentence} Nothing is left of {', '.join(emptied)}." if emptied else sentence


def _count(rows: Rows, *columns: str) -> Counter[tuple[str, ...]]:
    """Count the rows with each combination of values in some columns of text."""
    return Counter(pd.DataFrame({name: getattr(rows, name) for name in columns}).value_counts().to_dict())


def _among(values: npt.NDArray[np.str_], members: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    # Arrow uses a hash table; numpy's isin sorts, which takes ten times longer for text.
    among = pc.is_in(pa.array(values, pa.string()), value_set=pa.array(members, pa.string()))
    return np.asarray(among.to_numpy(zero_copy_only=False), dtype=np.bool_)
