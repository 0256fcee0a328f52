"""OODL against scikit-learn's own scores of the same machine, as the authors' code asks for it."""

import dataclasses

import numpy as np
import pytest

from tests.evaluation.detectors.toy import toy_features
from unknown_detection.evaluation.detectors import OODL

svm = pytest.importorskip("sklearn.svm", reason="scikit-learn fits the machine")
preprocessing = pytest.importorskip("sklearn.preprocessing", reason="scikit-learn standardizes for comparison")

FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


def by_scikit_learn(fitted, tested, nu):
    scaler = preprocessing.StandardScaler().fit(fitted)
    machine = svm.OneClassSVM(kernel="rbf", gamma="scale", nu=nu).fit(scaler.transform(fitted))
    return -machine.score_samples(scaler.transform(tested))


@pytest.mark.parametrize(("depth", "block"), [(0.0, 0), (0.25, 0), (0.3, 1), (0.5, 1), (0.75, 2), (1.0, 2)])
@pytest.mark.parametrize("nu", [0.001, 0.1])
def test_score_is_the_machines_own_on_the_chosen_block(depth, block, nu):
    order = np.argsort(FITTED.ids)
    fitted = FITTED.blocks[block][order].astype(np.float64)
    detector = OODL(depth=depth, nu=nu).fit(FITTED)
    assert detector.block == block
    expected = by_scikit_learn(fitted, TESTED.blocks[block].astype(np.float64), nu)
    np.testing.assert_allclose(detector.score(TESTED), expected, rtol=1e-10)


def test_a_feature_that_never_changes_is_left_at_zero():
    constant = dataclasses.replace(FITTED, blocks=(np.hstack([FITTED.blocks[0], np.full((len(FITTED), 1), 3.0)]),))
    tested = dataclasses.replace(TESTED, blocks=(np.hstack([TESTED.blocks[0], np.full((len(TESTED), 1), 3.0)]),))
    expected = by_scikit_learn(constant.blocks[0][np.argsort(FITTED.ids)], tested.blocks[0], 0.001)
    np.testing.assert_allclose(OODL().fit(constant).score(tested), expected, rtol=1e-10)
