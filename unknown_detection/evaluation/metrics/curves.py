"""Formulas of the metrics, computed from a ranking; `metrics` has functions of scores for those that users call.

Each raises `EvaluationError` if the ranking lacks a class that it needs.

Tested by `tests/evaluation/metrics/test_metrics.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.ranking import Counts, Ranking, Side

Floats = npt.NDArray[np.float64]
Estimator = Literal["average_precision", "trapezoid"]


def risk(ranking: Ranking) -> Floats:
    """Error rate among the k rows with the lowest scores for k = 1..n, shape (n,)."""
    return np.concatenate(list(_risk(ranking)))


def risk_coverage_area(ranking: Ranking) -> float:
    """Mean height of the risk-coverage curve."""
    return sum(float(block.sum()) for block in _risk(ranking)) / len(ranking)


def eaurc(ranking: Ranking) -> float:
    """Excess AURC: the AURC less the lowest AURC that any order of the same rows can reach.

    Geifman et al., as for `metrics.aurc`. The optimum, all errors last, is the exact one; their closed form, r + (1 -
    r) ln(1 - r) for an error rate r, is its limit for many rows. From 0, for a perfect order, to less than 1.
    """
    rows, right = len(ranking), int(ranking.known[-1])
    # The optimum is the mean of (k - right) / k over k = right + 1..n; the sum of 1 / k is a difference of digammas.
    optimum = (rows - right - right * (digamma(rows + 1) - digamma(right + 1))) / rows
    return max(0.0, risk_coverage_area(ranking) - float(optimum))


def _risk(ranking: Ranking) -> Iterator[Floats]:
    for right, errors in ranking.true_and_false_positives("known"):
        rows = right + errors
        tied = np.diff(rows)
        if tied.max() == 1:
            yield errors[1:] / rows[1:]
        else:
            # Each row of a tie has the tie's mean error.
            more = np.cumsum(np.repeat(np.diff(errors) / tied, tied))
            yield (errors[0] + more) / np.arange(rows[0] + 1, rows[-1] + 1)


def accuracy(ranking: Ranking) -> float:
    """Fraction of rows without an error."""
    return int(ranking.known[-1]) / len(ranking)


def roc_area(ranking: Ranking) -> float:
    """Area under the ROC curve."""
    known, unknown = ranking.sizes()
    # Integers until the division: exact for any number of rows that fits in memory.
    area = sum(
        int((np.diff(above) * (below[1:] + below[:-1])).sum())
        for below, above in ranking.true_and_false_positives("known")
    )
    return area / (2 * known * unknown)


def open_set_area(ranking: Ranking) -> float:
    """Area under the curve of open-set classification."""
    right = int(ranking.known[-1])
    if not right and ranking.missed and ranking.unknown[-1]:
        return 0.0
    # The area under the ROC curve of the rows that are classified right, times their share.
    return roc_area(ranking) * (right / (right + ranking.missed))


def aupr(ranking: Ranking, positive: Side, estimator: Estimator) -> float:
    """Area under the precision-recall curve."""
    known, unknown = ranking.sizes()
    area = 0.0
    for true, false in ranking.true_and_false_positives(positive):
        predicted = true + false
        # The curve begins at precision 1, where no row is predicted positive.
        precision = np.divide(true, predicted, out=np.ones(len(predicted)), where=predicted > 0)
        if estimator == "average_precision":
            heights = precision[1:]
        elif estimator == "trapezoid":
            heights = (precision[1:] + precision[:-1]) / 2
        else:
            raise EvaluationError(f"There is no estimator {estimator!r}; choose average_precision or trapezoid.")
        area += float((np.diff(true) * heights).sum())
    return area / (known if positive == "known" else unknown)


def _from_95_tpr(ranking: Ranking, positive: Side) -> tuple[Counts, Counts]:
    """Count true and false positives from the first threshold on with a TPR of at least 95 %."""
    true, false = ranking.positives(positive)
    # Integers, because 0.95 n may exceed 95 % in floating point.
    first = int(np.searchsorted(true, -(-19 * int(true[-1]) // 20)))
    return true[first:], false[first:]


def first_fpr_at_95_tpr(ranking: Ranking, positive: Side) -> float:
    """False positive rate at a true positive rate of at least 95 %."""
    _, false = _from_95_tpr(ranking, positive)
    return int(false[0]) / int(false[-1])


def detection_error(ranking: Ranking, positive: Side) -> float:
    """Mean of false negative and false positive rate at the threshold of `first_fpr_at_95_tpr`, from 0 to 0.525.

    Liang, Li and Srikant, Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks (ICLR
    2018), section 4.3. Some papers' numbers are `least_detection_error_at_95_tpr`.
    """
    true, false = _from_95_tpr(ranking, positive)
    return 0.5 * (1 - int(true[0]) / int(true[-1])) + 0.5 * (int(false[0]) / int(false[-1]))


def interpolated_fpr_at_95_tpr(ranking: Ranking, positive: Side) -> float:
    """False positive rate at a true positive rate of exactly 95 %, interpolated linearly between thresholds.

    As in the package ood-metrics, with which the numbers in the tables of FACETS and of the optimizer paper agree. If
    several thresholds have a true positive rate of 95 %, the last of them counts, as there.
    """
    true, false = ranking.positives(positive)
    # Integers, because 0.95 n may exceed 95 % in floating point.
    below = int(np.searchsorted(true, 19 * int(true[-1]) // 20, side="right")) - 1
    missing = 19 * int(true[-1]) - 20 * int(true[below])
    mistaken = float(false[below])
    if missing:
        step = 20 * int(true[below + 1] - true[below])
        mistaken += missing / step * float(false[below + 1] - false[below])
    return mistaken / int(false[-1])


def least_detection_error_at_95_tpr(ranking: Ranking, positive: Side) -> float:
    """Minimum of `detection_error` over the thresholds with a true positive rate of at least 95 %, from 0 to 0.5.

    As in the package ood-metrics, with which the tables of FACETS and of the optimizer paper agree, although the texts
    define `detection_error`. The package weights both rates by the numbers of rows; the texts by 0.5, as here.
    """
    true, false = _from_95_tpr(ranking, positive)
    return 0.5 * float((1 - true / true[-1] + false / false[-1]).min())
