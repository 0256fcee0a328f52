"""NNGuide against loops over all pairs, and searched in float32."""

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.evaluation.detectors.toy import toy_features
from unknown_detection.evaluation.detectors import NNGuide, nearest, neighbors
from unknown_detection.evaluation.errors import EvaluationError

FITTED, TESTED = toy_features(rows=120, seed=1), toy_features(rows=20, seed=2, unknown=10)


def guided(fitted, tested, k):
    scores = []
    for z, logits in zip(tested.penultimate.astype(float), tested.logits.astype(float), strict=True):
        similarities = [
            logsumexp(other_logits) * (z @ other) / (np.linalg.norm(z) * np.linalg.norm(other))
            for other, other_logits in zip(fitted.penultimate.astype(float), fitted.logits.astype(float), strict=True)
        ]
        scores.append(-logsumexp(logits) * np.mean(sorted(similarities, reverse=True)[:k]))
    return scores


@pytest.fixture(params=["numpy", "torch"])
def library(request, monkeypatch):
    """A CPU searches with NumPy, a GPU with torch; both ways must give the same."""
    if request.param == "torch":
        pytest.importorskip("torch", reason="searches on GPUs")
        monkeypatch.setattr(neighbors, "search_device", lambda multiplications: "cpu")


@pytest.mark.parametrize("k", [1, 10, 119, 120])
@pytest.mark.parametrize("bank_rows", [7, 1024])
def test_nnguide_is_the_energy_times_the_mean_similarity_to_the_nearest(k, bank_rows, library, monkeypatch):
    monkeypatch.setattr(nearest, "_BANK_ROWS", bank_rows)
    given = NNGuide(k=k).fit(FITTED).score(TESTED)
    np.testing.assert_allclose(given, guided(FITTED, TESTED, k), rtol=1e-12)


def test_energies_below_zero_turn_the_order(library):
    """Then the vectors of the bank point away, and the least similar rows are the nearest."""
    fitted, tested = (dataclasses.replace(rows, logits=rows.logits - 30) for rows in (FITTED, TESTED))
    given = NNGuide(k=5).fit(fitted).score(tested)
    np.testing.assert_allclose(given, guided(fitted, tested, 5), rtol=1e-12)


def test_several_score_together_as_each_does(library):
    detectors = [NNGuide(k=k).fit(FITTED) for k in (10, 1, 120)]
    for detector, scores in zip(detectors, NNGuide.score_together(detectors, TESTED), strict=True):
        np.testing.assert_allclose(scores, detector.score(TESTED), rtol=1e-12)


@pytest.mark.parametrize("k", [0, 121])
def test_nnguide_needs_as_many_rows(k):
    with pytest.raises(
        EvaluationError, match=f"k of nnguide must be a whole number from 1 to the 120 rows.*found {k}[.] Give"
    ):
        NNGuide(k=k).fit(FITTED)
