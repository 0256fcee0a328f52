"""Bootstrap samples of metrics: scores are sorted once, and rows drawn with replacement as counts at each rank.

A sample gives each row a count. Cumulated in the order of scores, the counts are the `Ranking` of the drawn rows, from
which any metric is computed as from one of scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.metrics import Metric
from unknown_detection.evaluation.metrics.ranking import Ranking, Takes

Floats = npt.NDArray[np.float64]
RowCounts = npt.NDArray[np.uint8]
"""How often each row is drawn, shape (samples, rows); more than 255 times never happens."""


FEWEST = 100
"""The fewest samples that give intervals of 95 %: two lie beyond either end; ours."""


def require_samples(intervals: Any) -> None:
    """Check the number of bootstrap samples that was asked for; `EvaluationError` for too few. 0 is for none."""
    if intervals and not (isinstance(intervals, int | np.integer) and intervals >= FEWEST):
        raise EvaluationError(
            f"intervals={intervals!r} is not a number of bootstrap samples for intervals of 95 %. Take {FEWEST} or "
            "more, such as 1000, or 0 for no intervals."
        )


def row_counts(rows: int, samples: int, name: str) -> RowCounts:
    """Draw for each sample how often each row is taken; equal `name`s, which say of what, give equal draws."""
    key = hashlib.sha256(f"0\t{name}\t{rows}".encode()).digest()  # by the seed 0
    numbers = np.random.default_rng(int.from_bytes(key[:16], "little"))
    counts = np.empty((samples, rows), dtype=np.uint8)
    for sample in counts:
        sample[:] = np.bincount(numbers.integers(rows, size=rows), minlength=rows)
    return counts


def resampled(
    known: Floats,
    unknown: Floats,
    errors: npt.NDArray[np.bool_] | None,
    counts: tuple[RowCounts, RowCounts],
    metrics: Mapping[str, Metric],
    labelled: npt.NDArray[np.bool_] | None = None,
) -> dict[str, Floats]:
    """Compute metrics of each bootstrap sample, by metric, shape (samples,).

    Args:
        known: scores of known rows, shape (k,).
        unknown: scores of unknown rows, shape (u,).
        errors: which known rows are misclassified, shape (k,); None where no metric needs it.
        counts: how often each known and each unknown row is drawn.
        metrics: those to compute.
        labelled: which known rows have a label, shape (k,); None where all have.
    """
    wrong = np.zeros(len(known), dtype=np.bool_) if errors is None else errors
    places = np.unique(np.concatenate([known, unknown]))
    sides = [_Side(known, np.flatnonzero(~wrong), places), _Side(known, np.flatnonzero(wrong), places)]
    sides.append(_Side(unknown, np.arange(len(unknown)), places))
    named = sides[1] if labelled is None else _Side(known, np.flatnonzero(wrong & labelled), places)
    values = {name: np.empty(len(counts[0])) for name in metrics}
    for sample, (of_known, of_unknown) in enumerate(zip(*counts, strict=True)):
        right, mistaken, outside = (
            side.below(of) for side, of in zip(sides, (of_known, of_known, of_unknown), strict=True)
        )
        # Thresholds between which no row was drawn are one.
        total = right + mistaken + outside
        kept = np.flatnonzero(np.diff(total, prepend=-1))
        of_labelled = mistaken if labelled is None else named.below(of_known)
        right, mistaken, outside, of_labelled = (of[kept] for of in (right, mistaken, outside, of_labelled))
        by_takes: dict[Takes, Ranking] = {
            "unknown": Ranking(right + mistaken, outside),
            "errors": Ranking(right, mistaken + outside),
            "misclassified": Ranking(right, of_labelled),
            "open_set": Ranking(right, outside, int(mistaken[-1])),
        }
        for name, metric in metrics.items():
            values[name][sample] = metric.value(by_takes[metric.takes])
    return values


class _Side:
    """Some rows in the order of their scores, and how many of them are below each threshold."""

    def __init__(self, scores: Floats, rows: npt.NDArray[np.intp], thresholds: Floats) -> None:
        self.rows = rows[np.argsort(scores[rows], kind="stable")]
        self.places = np.append(0, np.searchsorted(scores[self.rows], thresholds, side="right"))

    def below(self, counts: RowCounts) -> npt.NDArray[np.int64]:
        """Count the drawn rows below each threshold, ascending from 0 to all of them."""
        cumulated = np.zeros(len(self.rows) + 1, dtype=np.int64)
        if len(self.rows):
            np.cumsum(counts[self.rows], out=cumulated[1:])
        return np.take(cumulated, self.places)
