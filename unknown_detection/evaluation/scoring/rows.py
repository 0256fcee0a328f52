"""Rows of a release with one detector's scores: the input of every protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.ranking import Ranking, rank

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


def known_rows(rows: Rows, split: str) -> Rows:
    """Return the in-distribution rows of a split; `EvaluationError` if there are none."""
    selected = rows.where(rows.known & (rows.split == split))
    if not len(selected):
        raise EvaluationError(
            f"{split} of {' and '.join(rows.by('config'))} has no in-distribution rows among {len(rows):,} rows. "
            "Score that split, and name it among those to evaluate."
        )
    return selected


def unknown_splits(rows: Rows, roles: Sequence[str]) -> dict[str, Rows]:
    """Return the rows of some roles by split, in the order of the roles and then by name; refuses none at all."""
    splits: dict[str, Rows] = {}
    for role in roles:
        splits |= rows.where(rows.role == role).by("split")
    if not splits:
        raise EvaluationError(
            f"{' and '.join(rows.by('config'))} has no rows of the role {' or '.join(roles)} (found: "
            f"{', '.join(np.unique(rows.role).tolist())}). Score a split of unknowns, too, or choose another protocol."
        )
    return splits


def sides(known: Rows, *unknown: Rows) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the scores of in-distribution rows, then of unknown ones, and which of them are unknown; shape (n,)."""
    scores = np.concatenate([known.score, *(rows.score for rows in unknown)])
    return scores, np.arange(len(scores)) >= len(known)


def rank_known_unknown(known: Rows, *unknown: Rows) -> Ranking:
    """Rank in-distribution rows against unknown ones."""
    return rank(*sides(known, *unknown))[0]


def rank_errors(rows: Rows) -> Ranking:
    """Rank correctly classified rows against misclassified ones."""
    return rank(rows.score, rows.wrong)[0]
