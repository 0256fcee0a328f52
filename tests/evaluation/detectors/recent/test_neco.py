"""NECO against scikit-learn's scaler and principal components."""

import dataclasses

import numpy as np
import pytest

from tests.evaluation.detectors.toy import WIDTH, toy_features
from unknown_detection.evaluation.detectors import NECO

FITTED, TESTED = toy_features(rows=400, seed=1), toy_features(rows=60, seed=2, unknown=40)


@pytest.mark.parametrize("times_logit", [1, 0])
@pytest.mark.parametrize("explained", [0.3, 0.9, 0.99])
def test_scores_are_the_share_of_the_length_in_the_first_components(explained, times_logit):
    preprocessing = pytest.importorskip("sklearn.preprocessing", reason="scikit-learn standardizes")
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn finds the components")
    scaler = preprocessing.StandardScaler()
    components = decomposition.PCA().fit(scaler.fit_transform(FITTED.penultimate.astype(float)))
    count = np.flatnonzero(np.cumsum(components.explained_variance_ratio_) >= explained)[0] + 1
    standard = scaler.transform(TESTED.penultimate.astype(float))
    inside = components.transform(standard)[:, :count]
    expected = np.linalg.norm(inside, axis=1) / np.linalg.norm(standard, axis=1)
    if times_logit:
        expected = expected * TESTED.logits.max(axis=1)
    scores = NECO(explained=explained, times_logit=times_logit).fit(FITTED).score(TESTED)
    np.testing.assert_allclose(scores, -expected, rtol=1e-8)


def test_a_constant_feature_and_a_row_at_the_mean_are_no_hindrance():
    z = FITTED.penultimate.astype(float)
    z[:, 0] = 3.0
    fitted = NECO().fit(dataclasses.replace(FITTED, penultimate=z))
    at_mean = dataclasses.replace(TESTED.take([0]), penultimate=fitted.mean[None])
    assert fitted.mean.shape == (WIDTH,)
    assert fitted.score(at_mean).tolist() == [0.0]
