"""Mahalanobis distances against SciPy's, and shrinking by scikit-learn; more is in `test_against_pytorch_ood.py`."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis as distance

from tests.evaluation.detectors.toy import FITTED, TESTED, WIDTH, assert_scores, units
from unknown_detection.evaluation.detectors import (
    RMDS,
    RMDSPP,
    Mahalanobis,
    MahalanobisFirst,
    MahalanobisLogits,
    MahalanobisPP,
    MahalanobisRadial,
)
from unknown_detection.evaluation.models.features import Features


def means_and_residuals(values, labels):
    means = np.array([values[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    return means, values - means[labels]


def nearest(values, means, precision):
    return [min(distance(row, mean, precision) ** 2 for mean in means) for row in values]


def expected_scores(fitted, tested, labels):
    fitted, tested = fitted.astype(np.float64), tested.astype(np.float64)
    means, residuals = means_and_residuals(fitted, labels)
    covariance = sum(np.outer(row, row) for row in residuals) / len(residuals)
    return np.array(nearest(tested, means, np.linalg.inv(covariance)))


@pytest.mark.parametrize(
    ("make", "layer"),
    [
        (Mahalanobis, lambda f: f.penultimate),
        (MahalanobisFirst, lambda f: f.blocks[0]),
        (MahalanobisLogits, lambda f: f.logits),
    ],
)
def test_score_is_the_squared_distance_to_the_nearest_class(make, layer):
    detector = assert_scores(make(), expected_scores(layer(FITTED), layer(TESTED), FITTED.labels), 1e-8)
    assert [fitted.shrinkage for fitted in detector.gaussians] == [0.0]


def features_of(values, labels):
    count = len(values)
    return Features(
        ids=np.array([f"row-{i}" for i in range(count)]),
        labels=labels,
        logits=np.zeros((count, labels.max() + 1)),
        penultimate=values,
        blocks=(),
    )


def test_distances_between_features_far_from_the_origin_keep_their_digits():
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    values = random.normal(size=(60, 5)) + 4 * labels[:, None]
    near = Mahalanobis().fit(features_of(values, labels)).score(features_of(values, labels))
    far = features_of(values + 2.0**20, labels)
    np.testing.assert_allclose(Mahalanobis().fit(far).score(far), near, rtol=1e-7)


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
def test_a_feature_in_other_units_changes_nothing(scale):
    units = np.ones(12)
    units[3] = scale
    plain = Mahalanobis().fit(FITTED).score(TESTED)
    fitted, tested = (dataclasses.replace(f, penultimate=f.penultimate * units) for f in (FITTED, TESTED))
    np.testing.assert_allclose(Mahalanobis().fit(fitted).score(tested), plain, rtol=1e-9)


@pytest.mark.parametrize("rows", [10, 40, 66])
def test_fewer_rows_than_features_shrink_as_ledoit_and_wolf(rows):
    covariance_module = pytest.importorskip("sklearn.covariance", reason="scikit-learn shrinks for comparison")
    random = np.random.default_rng(rows)
    labels = np.arange(rows) % 3
    spread = np.linspace(0.5, 3, 64)
    fitted = random.normal(size=(rows, 64)) * spread + labels[:, None]
    tested = random.normal(size=(20, 64)) * spread
    means, residuals = means_and_residuals(fitted, labels)
    covariance, shrinkage = covariance_module.ledoit_wolf(residuals, assume_centered=True)
    detector = Mahalanobis().fit(features_of(fitted, labels))
    (gaussians,) = detector.gaussians
    assert gaussians.shrinkage == pytest.approx(shrinkage, rel=1e-10)
    scores = detector.score(features_of(tested, np.arange(20) % 3))
    np.testing.assert_allclose(scores, nearest(tested, means, np.linalg.inv(covariance)), rtol=1e-8)
    assert (scores > 0).all()


def test_a_feature_that_never_changes_shrinks_too():
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    values = random.normal(size=(200, 6))
    values[:, 4] = 7.0
    detector = Mahalanobis().fit(features_of(values, labels))
    (gaussians,) = detector.gaussians
    assert 0 < gaussians.shrinkage < 1
    unseen = values[:5].copy()
    unseen[:, 4] = 8.0
    tested = np.concatenate([values[:5], unseen])
    scores = detector.score(features_of(tested, np.arange(10) % 2))
    assert (scores[5:] > scores[:5]).all()


@pytest.mark.parametrize(
    ("classes", "width", "offset"), [(10, 512, 0.0), (40, 2048, 0.0), (100, 64, 5.0), (200, 512, 0.0)]
)
def test_logits_that_always_have_one_sum_shrink_too(classes, width, offset):
    """As of a layer whose weights sum to 0 over the classes; in float32 they do so but for several roundings."""
    random = np.random.default_rng(classes)
    weight = random.normal(size=(classes, width)).astype(np.float32)
    weight -= weight.mean(axis=0)
    count = 4 * classes + 1000
    z = np.maximum(random.normal(size=(count, width)) + 0.3, 0).astype(np.float32)
    logits = z @ weight.T + np.float32(offset)
    labels = np.arange(count) % classes
    (gaussians,) = Mahalanobis().fit(features_of(logits, labels)).gaussians
    assert 0 < gaussians.shrinkage < 1
    # Without one of them nothing is left to be told from the others.
    if width >= classes:
        (gaussians,) = Mahalanobis().fit(features_of(logits[:, 1:], labels)).gaussians
        assert gaussians.shrinkage == 0


def scaled(features, beta):
    lengths = np.linalg.norm(features.penultimate.astype(float), axis=1, keepdims=True)
    return dataclasses.replace(features, penultimate=units(features) * lengths ** (1 - beta))


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
def test_radial_distances_and_those_of_length_1_are_those_of_scaled_features(beta):
    """That of the features as they are and RMDS are shown above."""
    fitted, tested = scaled(FITTED, beta), scaled(TESTED, beta)
    makes = [(MahalanobisRadial(beta=beta), Mahalanobis())]
    makes += [(MahalanobisPP(), Mahalanobis()), (RMDSPP(), RMDS())] if beta == 1 else []
    for detector, plain in makes:
        assert_scores(detector, plain.fit(fitted).score(tested), 1e-8)
    zeros = dataclasses.replace(TESTED.take([0]), penultimate=np.zeros((1, WIDTH)))
    assert np.isfinite(makes[-1][0].score(zeros)).all()
