"""GMM against SciPy's normal densities; `test_against_pytorch_ood.py` compares it with pytorch-ood's."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tests.evaluation.detectors.toy import CLASSES, WIDTH, toy_features
from unknown_detection.evaluation.detectors import GMM
from unknown_detection.evaluation.detectors import mahalanobis as gmm
from unknown_detection.evaluation.errors import EvaluationError

FITTED, TESTED = toy_features(rows=203, seed=1), toy_features(rows=20, seed=2, unknown=10)


@pytest.mark.parametrize("regularization", [1e-6, 0.1])
def test_scores_are_log_densities_of_a_mixture(regularization):
    z, density = FITTED.penultimate.astype(float), 0.0
    for c in range(CLASSES):
        own = z[FITTED.labels == c]
        covariance = np.cov(own.T, bias=True) + regularization * np.eye(WIDTH)
        normal = multivariate_normal(own.mean(axis=0), covariance)
        density = density + len(own) / len(z) * normal.pdf(TESTED.penultimate.astype(float))
    scores = GMM(regularization=regularization).fit(FITTED).score(TESTED)
    np.testing.assert_allclose(scores, -np.log(density), rtol=1e-8)


def test_a_singular_covariance_and_too_many_covariances_are_refused(monkeypatch):
    large = dataclasses.replace(FITTED, penultimate=FITTED.penultimate.astype(float) * 1e8)
    few = large.take(slice(2 * CLASSES))
    with pytest.raises(
        EvaluationError, match=r"covariance of class 0 is singular .*, from 2 rows of 12 features\. Give"
    ):
        GMM().fit(few)
    monkeypatch.setattr(gmm, "_MOST", 4000)
    with pytest.raises(
        EvaluationError, match=r"gmm fits a covariance to each of 4 classes, of 12 features: .* Leave it"
    ):
        GMM().fit(FITTED)
