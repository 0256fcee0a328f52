"""What is read off a ranking: the formulas of the metrics, which `evaluation.metrics.metrics` documents one by one.

Each raises `EvaluationError` where the ranking lacks a side that it needs.

Tested by `tests/evaluation/metrics/test_metrics.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from evaluation.errors import EvaluationError
from evaluation.metrics.ranking import Ranking, Side

Floats = npt.NDArray[np.float64]
Estimator = Literal["average_precision", "trapezoid"]


def risk(ranking: Ranking) -> Floats:
    """Error rate among the k most trusted rows for k = 1..n, shape (n,)."""
    return np.concatenate(list(_risk(ranking)))


def aurc(ranking: Ranking) -> float:
    """Mean height of the risk-coverage curve."""
    return sum(float(block.sum()) for block in _risk(ranking)) / len(ranking)


def eaurc(ranking: Ranking) -> float:
    """What the AURC has above its optimum."""
    rows, right = len(ranking), int(ranking.known[-1])
    # The optimum is the mean of (k - right) / k over k = right + 1..n; the sum of 1 / k is a difference of digammas.
    optimum = (rows - right - right * (digamma(rows + 1) - digamma(right + 1))) / rows
    return max(0.0, aurc(ranking) - float(optimum))


def _risk(ranking: Ranking) -> Iterator[Floats]:
    for right, errors in ranking.found("known"):
        rows = right + errors
        tied = np.diff(rows)
        if tied.max() == 1:
            yield errors[1:] / rows[1:]
        else:
            # Each row of a tie brings the tie's mean error.
            more = np.cumsum(np.repeat(np.diff(errors) / tied, tied))
            yield (errors[0] + more) / np.arange(rows[0] + 1, rows[-1] + 1)


def accuracy(ranking: Ranking) -> float:
    """Share of rows without an error."""
    return int(ranking.known[-1]) / len(ranking)


def auroc(ranking: Ranking) -> float:
    """Area under the ROC curve."""
    known, unknown = ranking.sizes()
    # Whole numbers to the end: exact for as many rows as fit in memory.
    area = sum(int((np.diff(above) * (below[1:] + below[:-1])).sum()) for below, above in ranking.found("known"))
    return area / (2 * known * unknown)


def aupr(ranking: Ranking, positive: Side, estimator: Estimator) -> float:
    """Area under the precision-recall curve."""
    known, unknown = ranking.sizes()
    area = 0.0
    for true, false in ranking.found(positive):
        found = true + false
        # Where nothing is found yet the curve begins, at precision 1.
        precision = np.divide(true, found, out=np.ones(len(found)), where=found > 0)
        if estimator == "average_precision":
            heights = precision[1:]
        elif estimator == "trapezoid":
            heights = (precision[1:] + precision[:-1]) / 2
        else:
            raise EvaluationError(
                f"expected average_precision or trapezoid as the estimator, found {estimator!r}; name one of them."
            )
        area += float((np.diff(true) * heights).sum())
    return area / (known if positive == "known" else unknown)


def fpr_at_95_tpr(ranking: Ranking, positive: Side) -> float:
    """False positive rate where 95 % of the positive rows are found."""
    return ranking.at_95_tpr(positive)[1]


def detection_error(ranking: Ranking, positive: Side) -> float:
    """Mean of miss rate and false positive rate at the same threshold."""
    tpr, fpr = ranking.at_95_tpr(positive)
    return 0.5 * (1 - tpr) + 0.5 * fpr


def least_detection_error(ranking: Ranking) -> float:
    """The least mean of both rates at any threshold."""
    known, unknown = ranking.sizes()
    return 0.5 - 0.5 * max(float((true / known - false / unknown).max()) for true, false in ranking.found("known"))
