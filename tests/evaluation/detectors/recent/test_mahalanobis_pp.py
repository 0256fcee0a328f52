"""Mahalanobis++, RMDS++ and the radially scaled distance against scikit-learn's covariance and loops over classes."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from tests.evaluation.detectors.toy import CLASSES, WIDTH, toy_features
from unknown_detection.evaluation.detectors import RMDSPP, Mahalanobis, MahalanobisPP, MahalanobisRadial

sklearn = pytest.importorskip("sklearn.covariance", reason="scikit-learn estimates the covariance")

FITTED, TESTED = toy_features(rows=400, seed=1), toy_features(rows=60, seed=2, unknown=40)


def scaled(features, beta):
    z = features.penultimate.astype(float)
    return np.array([row / np.sqrt(sum(row**2)) ** beta for row in z])


def distances(fitted, labels, tested):
    """The squared distance of each tested row to each class, by the precision of rows less their class's mean."""
    means = np.array([fitted[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    precision = sklearn.EmpiricalCovariance(assume_centered=True).fit(fitted - means[labels]).precision_
    return cdist(tested, means, "mahalanobis", VI=precision) ** 2


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
def test_distances_are_those_of_scaled_features(beta):
    expected = distances(scaled(FITTED, beta), FITTED.labels, scaled(TESTED, beta)).min(axis=1)
    np.testing.assert_allclose(MahalanobisRadial(beta=beta).fit(FITTED).score(TESTED), expected, rtol=1e-8)


def test_mahalanobis_pp_and_rmds_pp_scale_to_length_1():
    fitted, tested = scaled(FITTED, 1.0), scaled(TESTED, 1.0)
    expected = distances(fitted, FITTED.labels, tested).min(axis=1)
    np.testing.assert_allclose(MahalanobisPP().fit(FITTED).score(TESTED), expected, rtol=1e-8)
    background = distances(fitted, np.zeros_like(FITTED.labels), tested)[:, 0]
    np.testing.assert_allclose(RMDSPP().fit(FITTED).score(TESTED), expected - background, rtol=1e-8, atol=1e-8)


def test_a_row_s_length_does_not_matter_to_mahalanobis_pp_and_a_row_of_zeros_has_a_score():
    longer = dataclasses.replace(TESTED, penultimate=TESTED.penultimate * np.float32(4.0))
    fitted = MahalanobisPP().fit(FITTED)
    np.testing.assert_allclose(fitted.score(longer), fitted.score(TESTED), rtol=1e-10)
    zeros = dataclasses.replace(TESTED.take([0]), penultimate=np.zeros((1, WIDTH)))
    assert np.isfinite(fitted.score(zeros)).all()


def test_without_scaling_it_is_the_mahalanobis_distance():
    assert FITTED.logits.shape[1] == CLASSES
    expected = Mahalanobis().fit(FITTED).score(TESTED)
    np.testing.assert_array_equal(MahalanobisRadial(beta=0.0).fit(FITTED).score(TESTED), expected)
