"""Calibration: how well a model's confidence agrees with its accuracy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.metrics import Metric
from unknown_detection.evaluation.metrics.ranking import rank

Floats = npt.NDArray[np.float64]

BINS = 15
"""Number of bins of Guo et al.'s tables."""


def ece(confidence: npt.ArrayLike, errors: npt.ArrayLike, *, bins: int = BINS) -> float:
    """Expected calibration error: the mean gap between accuracy and confidence, over bins of equal width.

    Formula: sum_b n_b / n |right_b - confidence_b|, with the mean confidence and the fraction of right rows of the n_b
    rows whose confidence lies in (b / B, (b + 1) / B], the first bin with its lower end. Empty bins count nothing.
    Source: Naeini, Cooper and Hauskrecht, Obtaining Well Calibrated Probabilities Using Bayesian Binning (AAAI 2015);
    Guo et al., On Calibration of Modern Neural Networks (ICML 2017), section 2, equation 3, with 15 bins in section 5.

    Args:
        confidence: shape (n,), from 0 to 1: the probability of the predicted class, that is one minus an `msp` score.
        errors: shape (n,), bool or 0 and 1: misclassified rows.
        bins: number B of bins.

    Returns:
        From 0 to 1, lower is better.

    Raises:
        EvaluationError: there are no rows, lengths differ, a confidence is not from 0 to 1, or there are no bins.
    """
    rank(confidence, errors)  # checks both
    values, wrong = np.asarray(confidence, dtype=np.float64), np.asarray(errors, dtype=np.bool_)
    outside = (values < 0) | (values > 1)
    if outside.any():
        raise EvaluationError(
            f"{np.count_nonzero(outside):,} of {len(values):,} confidences are not from 0 to 1, the first is "
            f"{values[outside][0]}. Give probabilities, such as one minus the scores of msp."
        )
    if bins < 1:
        raise EvaluationError(f"ece needs at least one bin, found {bins}; give more.")
    _, confident, right = binned(values, wrong, bins)
    return float(np.abs(right - confident).sum() / len(values))


def binned(confidence: Floats, errors: npt.NDArray[np.bool_], bins: int = BINS) -> tuple[Floats, Floats, Floats]:
    """Return the number of rows in each bin of `ece`, their summed confidence, and how many are right; each (B,)."""
    # Sorted, so that sums do not depend on the order of rows, not even in their last digit.
    order = np.argsort(confidence)
    places = np.digitize(confidence[order], np.arange(1, bins) / bins, right=True)
    weights = np.ones(len(order)), confidence[order], ~errors[order]
    rows, confident, right = (np.bincount(places, weight, bins).astype(np.float64) for weight in weights)
    return rows, confident, right


def _of_confidence(ranking: object) -> float:
    raise TypeError("The expected calibration error takes confidences, not a ranking.")


ECE = Metric("ece", "ECE", "lower", _of_confidence)
"""Its name, title and factor. It is not in `METRICS`, whose entries are computed from a ranking of scores."""
