"""RAS against its definition, by loops."""

import numpy as np
from scipy.special import logsumexp

from tests.evaluation.detectors.toy import WIDTH, toy_features, toy_head
from unknown_detection.evaluation.detectors import RAS

HEAD = toy_head()
FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


def test_each_value_becomes_the_mean_of_its_rank():
    profile = [np.mean([sorted(map(float, z))[rank] for z in FITTED.penultimate]) for rank in range(WIDTH)]
    shaped = [[profile[sum(other < x for other in z)] for x in z] for z in TESTED.penultimate]
    logits = np.array(shaped) @ HEAD.weight.T.astype(float) + HEAD.bias
    detector = RAS().fit(FITTED, HEAD)
    np.testing.assert_allclose(detector.score(TESTED), -logsumexp(logits, axis=1), rtol=1e-6)
    assert detector.predict(TESTED).tolist() == logits.argmax(axis=1).tolist()


def test_of_equal_values_the_first_is_the_smaller():
    detector = RAS().fit(FITTED, HEAD)
    detector.profile = np.arange(4.0)
    assert detector._shape(np.array([[0.0, 5.0, 0.0, -1.0]])).tolist() == [[1.0, 3.0, 2.0, 0.0]]
