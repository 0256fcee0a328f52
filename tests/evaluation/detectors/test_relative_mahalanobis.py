"""RMDS against explicit inverses of explicit covariances."""

import dataclasses

import numpy as np

from tests.evaluation.detectors.toy import CLASSES, toy_features
from unknown_detection.evaluation.detectors import RMDS

FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


def test_rmds_is_the_distance_to_the_nearest_class_less_that_to_all_rows():
    z = FITTED.penultimate.astype(float)
    means = [z[FITTED.labels == c].mean(axis=0) for c in range(CLASSES)]
    within = np.mean([np.outer(x - means[y], x - means[y]) for x, y in zip(z, FITTED.labels, strict=True)], axis=0)
    mean, total = z.mean(axis=0), np.cov(z.T, bias=True)
    expected = [
        min((x - m) @ np.linalg.inv(within) @ (x - m) for m in means) - (x - mean) @ np.linalg.inv(total) @ (x - mean)
        for x in TESTED.penultimate.astype(float)
    ]
    np.testing.assert_allclose(RMDS().fit(FITTED).score(TESTED), expected, rtol=1e-9)


def test_rmds_worked_by_hand():
    """Classes at -2 and 2, each with variance 1 within; all rows have mean 0 and variance 5: 3 has 1 - 9/5."""
    fitted = toy_features(rows=4)
    fitted = dataclasses.replace(
        fitted,
        labels=np.array([0, 0, 1, 1]),
        logits=fitted.logits[:, :2],
        penultimate=np.array([[-3.0], [-1.0], [1.0], [3.0]]),
    )
    tested = dataclasses.replace(fitted.take([0]), penultimate=np.array([[3.0]]))
    np.testing.assert_allclose(RMDS().fit(fitted).score(tested), [1 - 9 / 5])


def test_rmds_is_the_same_in_any_linear_map_of_the_features():
    mix = np.random.default_rng(0).normal(size=(12, 12))
    fitted, tested = (
        dataclasses.replace(rows, penultimate=rows.penultimate.astype(float) @ mix + 3) for rows in (FITTED, TESTED)
    )
    expected = RMDS().fit(FITTED).score(TESTED)
    np.testing.assert_allclose(RMDS().fit(fitted).score(tested), expected, rtol=1e-6, atol=1e-6)
