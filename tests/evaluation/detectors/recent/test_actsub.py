"""ActSub against its definition, by projections and sorted cosines."""

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.evaluation.detectors.toy import CLASSES, WIDTH, toy_features, toy_head
from unknown_detection.evaluation.detectors import ActSub

HEAD = toy_head()
FITTED, TESTED = toy_features(rows=200, seed=1), toy_features(rows=30, seed=2, unknown=20)


def unit(z):
    return z / np.linalg.norm(z, axis=1, keepdims=True)


@pytest.mark.parametrize(("pruned", "weight"), [(0.5, 2.0), (0.8, 0.5), (0.95, 0.0)])
def test_scores_are_energies_in_one_subspace_times_nearness_in_the_other(pruned, weight):
    matrix, fitted, z = (values.astype(float) for values in (HEAD.weight, FITTED.penultimate, TESTED.penultimate))
    directions = np.linalg.svd(matrix)[2]
    projections = [directions[:k].T @ directions[:k] for k in range(CLASSES + 1)]
    gaps = [
        abs(np.mean(np.linalg.norm(fitted @ p, axis=1)) - np.mean(np.linalg.norm(fitted - fitted @ p, axis=1)))
        for p in projections
    ]
    chosen = projections[int(np.argmin(gaps))]
    inside = z @ chosen
    kept = -np.sort(-inside, axis=1)[:, : WIDTH - round(pruned * WIDTH)]
    shaped = inside * np.exp(inside.sum(axis=1) / kept.sum(axis=1))[:, None]
    energies = logsumexp(shaped @ matrix.T + HEAD.bias, axis=1)
    cosines = np.sort(unit(z - inside) @ unit(fitted - fitted @ chosen).T, axis=1)[:, -10:].mean(axis=1)
    detector = ActSub(pruned=pruned, weight=weight).fit(FITTED, HEAD)
    assert detector.decisive.shape == (WIDTH, int(np.argmin(gaps)))
    # The bank is in float32, 6e-8 of a unit vector.
    np.testing.assert_allclose(detector.score(TESTED), -energies * (-np.log(1 - cosines)) ** weight, rtol=1e-4)


def test_fewer_fitted_rows_than_ten_are_all_compared_with():
    few = dataclasses.replace(FITTED.take(slice(CLASSES)))
    assert np.isfinite(ActSub().fit(few, HEAD).score(TESTED)).all()
