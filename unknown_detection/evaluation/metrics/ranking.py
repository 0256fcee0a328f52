"""Sorts rows by score once, and counts them at each distinct score; every metric is computed from these counts.

Counts hold no order of rows within a tie, so no metric can depend on it.

Tested by `tests/evaluation/metrics/test_metrics_common.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError, first_line

Side = Literal["known", "unknown"]
Takes = Literal["unknown", "errors", "misclassified", "open_set", "rejected"]
"""The flags that a metric's ranking is by: `unknown` rows, or `errors`, of which each of these is one; `misclassified`
means errors among known rows alone, those with a label; `open_set` means both, see `rank_open_set`; `rejected` means
flags of unknown rows, with decisions in place of scores."""
ONE_SIDED: tuple[Takes, ...] = ("errors", "misclassified")
"""Metrics of these are defined where a model is always right or always wrong."""

Counts = npt.NDArray[np.int64]


_BLOCK = 1 << 16  # thresholds per block, whose counts and rates stay in a core's cache


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows of two classes by ascending score: known rows, which should score low, and unknown rows.

    For metrics of errors, `known` are the correctly classified rows and `unknown` the errors. A threshold has m + 1
    positions: below all of the m distinct scores, between two, or above all.

    Attributes:
        known: number of known rows below each threshold, ascending from 0 to all, int64 of shape (m + 1,).
        unknown: the same for unknown rows.
        missed: known rows that are below no threshold, because they are misclassified: for metrics of open-set
            recognition, whose other known rows are classified right.
    """

    known: Counts
    unknown: Counts
    missed: int = 0

    def __len__(self) -> int:
        return int(self.known[-1] + self.unknown[-1])

    def sizes(self) -> tuple[int, int]:
        """Numbers of known and of unknown rows."""
        known, unknown = int(self.known[-1]), int(self.unknown[-1])
        if not known or not unknown:
            raise EvaluationError(
                f"This metric needs known and unknown rows, but there are {known:,} known and {unknown:,} unknown "
                "ones. Score rows of both kinds."
            )
        return known, unknown

    def positives(self, positive: Side) -> tuple[Counts, Counts]:
        """Return true and false positives at every threshold, both ascending from 0 to all, shape (m + 1,).

        `known` predicts positive from the lowest score up, `unknown` from the highest down.
        """
        if positive == "known":
            return self.known, self.unknown
        if positive == "unknown":
            return self.unknown[-1] - self.unknown[::-1], self.known[-1] - self.known[::-1]
        raise EvaluationError(f"There is no class {positive!r}; choose known or unknown as the positive one.")

    def blocks(self, positive: Side) -> Iterator[tuple[Counts, Counts]]:
        """Yield `positives` in blocks; each block begins with the last threshold of the block before."""
        true, false = self.positives(positive)
        for start in range(0, len(true) - 1, _BLOCK):
            block = slice(start, start + _BLOCK + 1)
            yield true[block], false[block]


NOTHING = Ranking(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
"""The ranking of no rows at all, whose areas are undefined."""


def rank(scores: npt.ArrayLike, *flags: npt.ArrayLike) -> tuple[Ranking, ...]:
    """Rank rows once for several divisions into two classes; refuses scores that cannot be ranked.

    Scores are of shape (n,), finite, higher = more unknown; flags say whether rows are unknown (or errors), bool or 0
    and 1, each of shape (n,), at most 8.
    """
    values = _checked_scores(scores)
    sides = np.zeros(len(values), dtype=np.uint8)  # one bit per array of flags
    for bit, flag in enumerate(flags):
        sides |= _checked_flags(flag, len(values)).view(np.uint8) << bit
    # Sorting rows with equal flags separately and merging the runs takes half the time of one `argsort`: NumPy sorts
    # plain values with vector instructions, and its stable sort merges presorted runs.
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


def rank_open_set(
    scores: npt.ArrayLike, unknown: npt.ArrayLike, errors: npt.ArrayLike
) -> tuple[Ranking, Ranking, Ranking]:
    """Rank rows once for all three divisions that metrics use; arguments as for `rank`.

    These are known against unknown rows; rows without against rows with an error; and correctly classified known rows
    against unknown ones, with the number of those that are misclassified.
    """
    values = _checked_scores(scores)
    flags = [_checked_flags(flag, len(values)) for flag in (unknown, errors)]
    by_unknown, by_errors, by_either = rank(values, *flags, flags[0] | flags[1])
    wrong = by_either.unknown - by_unknown.unknown
    return by_unknown, by_errors, Ranking(by_unknown.known - wrong, by_unknown.unknown, int(wrong[-1]))


def _counted(unknown: npt.NDArray[np.bool_], places: npt.NDArray[np.bool_] | None) -> Ranking:
    below = np.zeros(len(unknown) + 1, dtype=np.int64)
    np.cumsum(unknown, out=below[1:])
    rows = np.arange(len(below))
    if places is not None:
        below, rows = below[places], rows[places]
    rows -= below
    return Ranking(rows, below)


def _unmasked(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    # `np.asarray` takes what lies under the mask.
    if np.ma.is_masked(values):
        raise EvaluationError(f"Some {name} are masked. Leave these rows out of all arguments, or fill them.")
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError, ValueError) as error:  # tensors with gradients or of bfloat16; rows of any length
        raise EvaluationError(
            f"The {name} cannot be read as an array: {first_line(error)}. Give one number per row."
        ) from error


def _checked_scores(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = _unmasked("scores", scores)
    if values.ndim != 1 or not len(values):
        raise EvaluationError(f"Scores have the shape {values.shape}; give one score per row.")
    if values.dtype.kind not in "fiu":
        raise EvaluationError(f"Scores are of type {values.dtype}; give one real number per row.")
    finite = np.isfinite(values)
    if not finite.all():
        raise EvaluationError(
            f"{np.count_nonzero(~finite):,} of {len(values):,} scores are NaN or infinite, first in row "
            f"{np.argmin(finite)}. Fix the detector: no metric can rank such rows."
        )
    if values.dtype.itemsize > (8 if values.dtype.kind == "f" else 4):
        # Rounded to float64, scores that differ could be equal; their places among all of them are exact.
        values = np.unique(values, return_inverse=True)[1]
    return values.astype(np.float64, copy=False)


def _checked_flags(flags: npt.ArrayLike, rows: int) -> npt.NDArray[np.bool_]:
    values = _unmasked("flags", flags)
    if values.shape != (rows,):
        raise EvaluationError(
            f"Flags have the shape {values.shape}, but there are {rows:,} scores; give one flag per score."
        )
    if values.dtype != np.bool_ and (values.dtype.kind not in "fiu" or not np.isin(values, (0, 1)).all()):
        raise EvaluationError(
            f"Flags of type {values.dtype} are neither bool nor 0 and 1; give the result of a comparison."
        )
    return values.astype(np.bool_, copy=False)
