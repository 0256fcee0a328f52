"""The expected calibration error by hand, by a loop over bins, and what holds of it."""

import numpy as np
import pytest

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.metrics import ece


def drawn(n=997, seed=0):
    """Confidences, some of them on the edges of bins, and errors at their rate."""
    random = np.random.default_rng(seed)
    confidence = np.where(random.random(n) < 0.2, random.integers(0, 16, n) / 15, random.random(n))
    return confidence, random.random(n) > confidence


def test_no_bins_are_refused():
    with pytest.raises(EvaluationError, match="ece needs at least one bin, found 0"):
        ece([0.5], [1], bins=0)


@pytest.mark.parametrize("bins", [1, 2, 10, 15, 100])
def test_ece_is_the_mean_gap_of_the_bins(bins):
    confidence, errors = drawn()
    expected = 0.0
    for b in range(bins):
        own = [
            i for i, value in enumerate(confidence) if b / bins < value <= (b + 1) / bins or (b == 0 and value == 0)
        ]
        if own:
            gap = np.mean([not errors[i] for i in own]) - np.mean([confidence[i] for i in own])
            expected += len(own) / len(confidence) * abs(gap)
    assert ece(confidence, errors, bins=bins) == pytest.approx(expected, abs=1e-12)


def test_the_number_of_bins_is_fifteen():
    assert ece(*drawn()) == ece(*drawn(), bins=15) != ece(*drawn(), bins=14)


def test_the_order_of_rows_does_not_matter():
    confidence, errors = drawn()
    confidence = np.round(confidence, 2)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(confidence))
        assert ece(confidence[order], errors[order]) == ece(confidence, errors)


@pytest.mark.parametrize(
    ("confidence", "errors", "sentence"),
    [
        ([0.5, 1.2, -3], [0, 1, 0], r"2 of 3 confidences are not from 0 to 1, the first is 1\.2\. Give probab"),
        ([0.5, np.nan], [0, 1], "1 of 2 scores are NaN or infinite"),
        ([0.5], [0, 1], r"Flags have the shape \(2,\)"),
        ([], [], "give one score per row"),
        ([0.5], [2], "neither bool nor 0 and 1"),
    ],
)
def test_what_has_no_calibration_is_refused(confidence, errors, sentence):
    with pytest.raises(EvaluationError, match=sentence):
        ece(confidence, errors)
