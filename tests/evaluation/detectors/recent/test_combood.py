"""CombOOD against SciPy's transform and inverse, and sorted distances."""

import numpy as np
import pytest
from scipy.stats import yeojohnson

from tests.evaluation.detectors.toy import toy_features
from unknown_detection.evaluation.detectors import CombOOD

pytest.importorskip("sklearn", reason="scikit-learn fits combood")

FITTED, TESTED = toy_features(rows=200, seed=1), toy_features(rows=20, seed=2, unknown=10)


@pytest.mark.parametrize("k", [1, 50])
def test_scores_add_a_parametric_and_a_nearest_distance(k):
    fitted, tested = (features.penultimate.astype(float) for features in (FITTED, TESTED))
    normal = []
    for column, other in zip(fitted.T, tested.T, strict=True):
        mean, deviation = column.mean(), column.std()
        made, power = yeojohnson((column - mean) / deviation)
        of_tested = yeojohnson((other - mean) / deviation, power)
        normal.append([(values - made.mean()) / made.std() for values in (made, of_tested)])
    x, y = (np.stack([pair[side] for pair in normal], axis=1) for side in (0, 1))
    inverse = np.linalg.inv(np.cov(x, rowvar=False) + np.eye(x.shape[1]))
    units = [values / np.linalg.norm(values, axis=1, keepdims=True) for values in (fitted, tested)]
    squares = np.sort(((units[1][:, None] - units[0]) ** 2).sum(axis=2), axis=1)[:, k - 1]
    expected = np.einsum("nd,de,ne->n", y, inverse, y) + np.sqrt(x.shape[1]) * np.log(squares)
    np.testing.assert_allclose(CombOOD(k=k).fit(FITTED).score(TESTED), expected, rtol=1e-5)
