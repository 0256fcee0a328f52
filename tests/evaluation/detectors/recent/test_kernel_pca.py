"""CoP and CoRP against scikit-learn's principal components, and CoRP's inner products against the kernel."""

import numpy as np
import pytest

from tests.evaluation.detectors.toy import WIDTH, toy_features
from unknown_detection.evaluation.detectors import CoP, CoRP

FITTED, TESTED = toy_features(rows=400, seed=1), toy_features(rows=60, seed=2, unknown=40)


def errors(fitted, tested, explained):
    """The norm of what the first principal components leave of each tested row."""
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn finds the components")
    components = decomposition.PCA(svd_solver="full").fit(fitted)
    count = np.flatnonzero(np.cumsum(components.explained_variance_ratio_) >= explained)[0] + 1
    centred = tested - components.mean_
    basis = components.components_[:count]
    return np.linalg.norm(centred - centred @ basis.T @ basis, axis=1)


def units(features):
    return np.array([z / sum(z**2) ** 0.5 for z in features.penultimate.astype(float)])


@pytest.mark.parametrize("explained", [0.5, 0.85, 0.99])
def test_cop_is_the_reconstruction_error_of_directions(explained):
    expected = errors(units(FITTED), units(TESTED), explained)
    np.testing.assert_allclose(CoP(explained=explained).fit(FITTED).score(TESTED), expected, rtol=1e-8)


@pytest.mark.parametrize("explained", [0.5, 0.9])
def test_corp_is_that_of_random_fourier_features(explained):
    detector = CoRP(explained=explained, frequencies=40).fit(FITTED)
    fitted, tested = (
        np.sqrt(2 / 40) * np.cos(units(features) @ detector.weight + detector.phase) for features in (FITTED, TESTED)
    )
    np.testing.assert_allclose(detector.score(TESTED), errors(fitted, tested, explained), rtol=1e-8)


@pytest.mark.parametrize("gamma", [0.5, 3.0])
def test_inner_products_of_the_random_features_are_the_gaussian_kernel(gamma):
    """Within five standard errors of the mean of 2 cos a cos b over the frequencies, at most 2 / sqrt(M)."""
    detector = CoRP(gamma=gamma, frequencies=20_000)
    random = np.random.default_rng(detector.seed)
    detector.weight = np.sqrt(2 * gamma) * random.standard_normal((WIDTH, 20_000))
    detector.phase = 2 * np.pi * random.random(20_000)
    mapped, rows = detector._map(TESTED.penultimate[:8].astype(float)), units(TESTED)[:8]
    kernel = np.exp(-gamma * ((rows[:, None] - rows) ** 2).sum(axis=2))
    np.testing.assert_allclose(mapped @ mapped.T, kernel, atol=10 / np.sqrt(20_000))


def test_another_seed_draws_other_frequencies():
    one, same, other = (CoRP(seed=seed).fit(FITTED).score(TESTED) for seed in (0, 0, 1))
    assert one.tolist() == same.tolist() != other.tolist()
