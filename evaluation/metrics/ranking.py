"""Rows in the order of their scores, reduced to what every metric is read from: counts at each distinct score.

Counts know nothing of the order of rows within a tie, so no metric can depend on it.

Tested by `tests/evaluation/metrics/test_metrics_common.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from evaluation.errors import EvaluationError

Side = Literal["known", "unknown"]
Counts = npt.NDArray[np.int64]


_BLOCK = 1 << 16  # places whose counts and rates together stay in a core's cache


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows of two sides by ascending score: the known, which should score low, and the unknown.

    Where errors are asked for instead of unknowns, `known` are the rows classified right and `unknown` the errors.
    A threshold can stand at m + 1 places: below all of the m distinct scores, between two, or above all.

    Attributes:
        known: known rows below each place, ascending from 0 to all of them, int64 of shape (m + 1,).
        unknown: the same of the unknown rows.
    """

    known: Counts
    unknown: Counts

    def __len__(self) -> int:
        return int(self.known[-1] + self.unknown[-1])

    def sizes(self) -> tuple[int, int]:
        """How many rows are known and how many unknown.

        Raises:
            EvaluationError: a side has none.
        """
        known, unknown = int(self.known[-1]), int(self.unknown[-1])
        if not known or not unknown:
            raise EvaluationError(
                f"expected known and unknown rows, found {known:,} known and {unknown:,} unknown; a metric of one "
                "against the other needs both."
            )
        return known, unknown

    def found(self, positive: Side) -> Iterator[tuple[Counts, Counts]]:
        """Count what is taken for positive while the threshold moves from none of the rows to all.

        Args:
            positive: `known` takes rows from the lowest score up, `unknown` from the highest down.

        Yields:
            True positives and false positives at each place, both ascending from 0 to all; in blocks, of which each
            begins with the last place of the one before.
        """
        true, false = self.known, self.unknown
        if positive == "unknown":
            true, false = self.unknown[::-1], self.known[::-1]
        for start in range(0, len(true) - 1, _BLOCK):
            block = slice(start, start + _BLOCK + 1)
            # From above, the rows that are taken are all but those below.
            yield abs(true[block] - true[0]), abs(false[block] - false[0])

    def at_95_tpr(self, positive: Side) -> tuple[float, float]:
        """TPR and FPR at the first place that finds at least 95 % of the positive rows.

        Raises:
            EvaluationError: a side has no rows, or there is no such side.
        """
        known, unknown = self.sizes()
        # Whole numbers, because 0.95 n may come out above 95 % in floats.
        if positive == "known":
            place = int(np.searchsorted(self.known, -(-19 * known // 20)))
            return int(self.known[place]) / known, int(self.unknown[place]) / unknown
        if positive == "unknown":
            place = int(np.searchsorted(self.unknown, unknown // 20, side="right")) - 1
            return (unknown - int(self.unknown[place])) / unknown, (known - int(self.known[place])) / known
        raise EvaluationError(f"expected known or unknown as the positive side, found {positive!r}; name one of them.")


def rank(scores: npt.ArrayLike, *flags: npt.ArrayLike) -> tuple[Ranking, ...]:
    """Rank rows, once for any number of ways to divide them into two sides.

    Args:
        scores: shape (n,), finite, higher = more unknown.
        flags: which rows are unknown (or errors), bool or 0 and 1; each of shape (n,), at most 8.

    Returns:
        A ranking for each of the flags.

    Raises:
        EvaluationError: there are no rows, one value a row is not given, scores are not finite numbers, or flags are
            neither bool nor 0 and 1.
    """
    values = _checked_scores(scores)
    sides = np.zeros(len(values), dtype=np.uint8)  # a bit for each of the flags
    for bit, flag in enumerate(flags):
        sides |= _checked_flags(flag, len(values)).view(np.uint8) << bit
    # Sorting rows of equal flags apart and merging the runs takes half the time of `argsort` of all: NumPy sorts plain
    # values with vector instructions, and its stable sort only merges where it finds sorted runs.
    sizes = [np.count_nonzero(sides == side) for side in range(1 << len(flags))]
    runs = np.empty(len(values))
    for side, run in enumerate(np.split(runs, np.cumsum(sizes)[:-1])):
        np.compress(sides == side, values, out=run)
        run.sort()
    order = np.argsort(runs, kind="stable")
    sides = np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes)[order]
    ordered = runs[order]
    rises = ordered[1:] != ordered[:-1]
    places = None if rises.all() else np.concatenate([[True], rises, [True]])
    return tuple(_counted((sides & 1 << bit).astype(np.bool_), places) for bit in range(len(flags)))


def _counted(unknown: npt.NDArray[np.bool_], places: npt.NDArray[np.bool_] | None) -> Ranking:
    below = np.zeros(len(unknown) + 1, dtype=np.int64)
    np.cumsum(unknown, out=below[1:])
    rows = np.arange(len(below))
    if places is not None:
        below, rows = below[places], rows[places]
    rows -= below
    return Ranking(rows, below)


def _checked_scores(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = np.asarray(scores)
    if values.ndim != 1 or not len(values):
        raise EvaluationError(f"expected a column of scores, found the shape {values.shape}; give one score a row.")
    if values.dtype.kind not in "fiu":
        raise EvaluationError(f"expected numbers as scores, found {values.dtype}; give one real number a row.")
    finite = np.isfinite(values)
    if not finite.all():
        raise EvaluationError(
            f"expected finite scores, found {np.count_nonzero(~finite):,} of {len(values):,} that are NaN or infinite,"
            f" row {np.argmin(finite)} first; mend the detector, since no metric can rank such rows."
        )
    return values.astype(np.float64, copy=False)


def _checked_flags(flags: npt.ArrayLike, rows: int) -> npt.NDArray[np.bool_]:
    values = np.asarray(flags)
    if values.shape != (rows,):
        raise EvaluationError(
            f"expected a flag for each of {rows:,} scores, found flags of shape {values.shape}; give two columns of "
            "the same rows."
        )
    if values.dtype != np.bool_ and (values.dtype.kind not in "fiu" or not np.isin(values, (0, 1)).all()):
        raise EvaluationError(
            f"expected flags that are bool, or 0 and 1, found others of {values.dtype}; compare them first."
        )
    return values.astype(np.bool_, copy=False)
