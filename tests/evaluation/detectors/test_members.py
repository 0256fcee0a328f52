"""Models that are averaged; `scoring/test_fit.py` has the scores of several, written out."""

import dataclasses

import numpy as np

from tests.evaluation.detectors.toy import toy_features
from unknown_detection.evaluation.detectors import MSP, DeepEnsemble, logits


def models(features):
    return [dataclasses.replace(features, logits=member, members=()) for member in features.members]


def test_averaged_models_score_as_one_model():
    features = toy_features(rows=30)
    averaged = logits.average(models(features))
    assert averaged.penultimate.shape == (30, 0)
    assert averaged.blocks == ()
    msp = MSP().score(averaged)
    np.testing.assert_allclose(msp, DeepEnsemble().fit().score(averaged), rtol=1e-12)
    np.testing.assert_array_equal(averaged.members, features.members)
