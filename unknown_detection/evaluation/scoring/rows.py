"""Rows of a release with one detector's scores, the input of every protocol, and which of them figures leave out.

A release has one table of pairs, the config `duplicates` with the split `pairs`. Each line is a pair of rows whose
images are identical (distance 0) or nearly so.

The column `id_overlap` has the known class that the row's class is, holds or shows, and null where there is none. It
is said of classes. `known_object_seen` marks images of BROAD on which people saw an object of some known class.

Tested by `tests/evaluation/scoring/test_rows.py` and `tests/evaluation/scoring/test_duplicates.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation.errors import EvaluationError, one_line
from unknown_detection.evaluation.metrics.ranking import Ranking, rank
from unknown_detection.words import quantity

IN_DISTRIBUTION = "in_distribution"
"""Role of the rows that a detector should accept."""


@dataclass(frozen=True, eq=False)
class Rows:
    """n rows of one or more configs, in any order, with one detector's scores.

    Attributes:
        id: the release's `id`, shape (n,).
        config: config of each row, shape (n,).
        split: split of each row, shape (n,).
        role: role of each row by name (`in_distribution`, `near_ood`, ...), shape (n,).
        label: in-distribution class as an index, shape (n,); -1 for rows outside these classes.
        class_id: class in the source dataset, shape (n,).
        source_id: the source image of the row, unique among all sources, shape (n,): a corrupted row and its clean
            original have the same.
        score: shape (n,), float64, finite, higher = more unknown.
        prediction: predicted class as an index, shape (n,), arbitrary for rows without a label; None without
            predictions.
        duplicate: whether the release lists the row as a duplicate of another (`duplicates`), shape (n,); None if the
            release does not say.
        overlap: the known class that the row's unknown class overlaps (`overlap`), an empty text where none, shape
            (n,); None if the release does not say.
        confidence: probability of the predicted class, shape (n,), NaN where the file has none; None without any.
    """

    id: npt.NDArray[np.str_]
    config: npt.NDArray[np.str_]
    split: npt.NDArray[np.str_]
    role: npt.NDArray[np.str_]
    label: npt.NDArray[np.int64]
    class_id: npt.NDArray[np.str_]
    source_id: npt.NDArray[np.str_]
    score: npt.NDArray[np.float64]
    prediction: npt.NDArray[np.int64] | None = None
    duplicate: npt.NDArray[np.bool_] | None = None
    overlap: npt.NDArray[np.str_] | None = None
    confidence: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.id)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether each row is in-distribution, shape (n,)."""
        known: npt.NDArray[np.bool_] = self.role == IN_DISTRIBUTION
        return known

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Whether each row's prediction differs from its label, shape (n,); always true for rows without a label."""
        if self.prediction is None:
            raise EvaluationError("The scores file has no predictions; add a column prediction (or class) to it.")
        wrong: npt.NDArray[np.bool_] = (self.label < 0) | (self.prediction != self.label)
        return wrong

    def where(self, chosen: npt.NDArray[np.bool_]) -> Rows:
        """Select the rows where `chosen`, of shape (n,), is true."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        return replace(self, **{name: values[chosen] for name, values in columns.items() if values is not None})

    def by(self, column: Literal["config", "split"]) -> dict[str, Rows]:
        """Group the rows by config or split, sorted by name."""
        values = getattr(self, column)
        return {name: self.where(values == name) for name in np.unique(values).tolist()}

    def known_rows(self, split: str) -> Rows:
        """Select the in-distribution rows of a split; `EvaluationError` if there are none."""
        selected = self.where(self.known & (self.split == split))
        if not len(selected):
            raise EvaluationError(
                f"{split} of {' and '.join(self.by('config'))} has no in-distribution rows among {len(self):,} rows. "
                "Score that split, and name it among those to evaluate."
            )
        return selected

    def unknown_splits(self, roles: Sequence[str]) -> dict[str, Rows]:
        """Return the rows of some roles by split, in the order of the roles and then by name; refuses none at all."""
        splits: dict[str, Rows] = {}
        for role in roles:
            splits |= self.where(self.role == role).by("split")
        if not splits:
            raise EvaluationError(
                f"{' and '.join(self.by('config'))} has no rows of the role {' or '.join(roles)} (found: "
                f"{', '.join(np.unique(self.role).tolist())}). Score a split of unknowns, too, or choose another "
                "protocol."
            )
        return splits

    def beside(self, *unknown: Rows) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return the scores of these in-distribution rows, then of unknown ones, and which are unknown; shape (n,)."""
        scores = np.concatenate([self.score, *(rows.score for rows in unknown)])
        return scores, np.arange(len(scores)) >= len(self)

    def against(self, *unknown: Rows) -> Ranking:
        """Rank these in-distribution rows against unknown ones."""
        return rank(*self.beside(*unknown))[0]

    def by_errors(self) -> Ranking:
        """Rank correctly classified rows against misclassified ones."""
        return rank(self.score, self.wrong)[0]


WITHOUT_DUPLICATES, WITHOUT_OVERLAP = REDUCED = ("without_duplicates", "without_overlap")
"""The kinds of figures that leave out rows."""

ID_OVERLAP = "id_overlap"
OBJECT_SEEN = "known_object_seen"
SEEN = "an object of a known class"
"""Stands for the known class of an image on which people saw one without saying which."""


COUNTED = ["protocol", "config", "split", "class_id", "overlap"]
"""The columns by which `count_left_out` counts rows: one class and the known one that it overlaps, or `SEEN`; both are
empty where duplicates are counted."""


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
    # By pandas' hash tables: NumPy's isin sorts, which takes ten times longer for text.
    sources, ids = pd.Index(rows.source_id), pd.Index(rows.id)
    return np.asarray(sources.isin(sources[rows.duplicate]) & ~ids.isin(ids[rows.duplicate]), dtype=np.bool_)


def is_left_out(rows: Rows, kind: str) -> npt.NDArray[np.bool_] | None:
    """Find the rows that figures of a kind leave out, shape (n,); None if the release does not say."""
    if kind == WITHOUT_DUPLICATES:
        return None if rows.duplicate is None else rows.duplicate | made_from_duplicates(rows)
    return None if rows.overlap is None else rows.overlap != ""


def count_left_out(rows: Rows, kind: str, protocol: str) -> pd.DataFrame | None:
    """Count the rows that figures of a kind leave out, by split, overlaps by class, too; None if it is unknown.

    A line has the columns `COUNTED`; `rows`, those of the whole split; and `left_out`. Of duplicates, it also has of
    these the `duplicates` and those `made_from_duplicates`: made from a duplicate's source image, or its clean
    originals.
    """
    left_out = is_left_out(rows, kind)
    if left_out is None:
        return None
    frame = pd.DataFrame({"config": rows.config, "split": rows.split, "left_out": left_out}).assign(protocol=protocol)
    if kind == WITHOUT_OVERLAP:
        frame = frame.assign(class_id=rows.class_id, overlap=rows.overlap)
        counts = frame[left_out].groupby(COUNTED)[["left_out"]].sum()
    else:
        frame = frame.assign(class_id="", overlap="", duplicates=rows.duplicate)
        counts = frame[left_out].groupby(COUNTED)[["left_out", "duplicates"]].sum()
        counts["made_from_duplicates"] = counts["left_out"] - counts["duplicates"]
    return counts.join(frame.groupby(["config", "split"]).size().rename("rows")).reset_index()


def describe_left_out(kind: str, counted: pd.DataFrame) -> str:
    """Summarize in a sentence or two how many rows figures of a kind leave out, and of which splits all."""
    what, column = kind.removeprefix("without_"), f"according to the column {ID_OVERLAP}"
    if kind == WITHOUT_DUPLICATES:
        nothing = "None of the evaluated rows is a duplicate, so figures without duplicates equal those on all rows."
        derived = " or are made from rows that do" * bool(counted["made_from_duplicates"].any())
        why = f"they appear in a pair of the release's table of duplicates{derived}"
    else:
        nothing = f"No evaluated row has a class that overlaps a known one {column}, so figures without overlap equal "
        nothing += "those on all."
        why = f"their class is, holds or shows a known one, {column}"
    if counted.empty:
        return nothing
    once = counted.drop_duplicates(COUNTED[1:])  # several protocols may evaluate the same rows
    splits = once.groupby(["config", "split"], sort=False).agg({"left_out": "sum", "rows": "first"})
    rows, emptied = quantity(int(splits["left_out"].sum()), "row"), splits.index[splits["left_out"] == splits["rows"]]
    sentence = f"Figures without {what} leave out {rows} of {quantity(len(splits), 'split')} because {why}."
    return f"{sentence} Nothing is left of {', '.join(map('/'.join, emptied))}." if len(emptied) else sentence
