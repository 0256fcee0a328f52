"""Scores of several members against entropies and probabilities written out."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from tests.evaluation.detectors.toy import toy_features
from unknown_detection.evaluation.detectors import MSP, DeepEnsemble, MutualInformation, logits


def softmax(row):
    powers = [np.exp(value - max(row)) for value in row]
    return np.array(powers) / sum(powers)


def stack(features):
    return np.stack(features.members).astype(np.float64)


def test_mutual_information_is_the_entropy_of_the_mean_less_the_mean_entropy():
    features = toy_features(rows=30, members=5)
    expected = []
    for row in range(len(features)):
        softmaxes = [softmax(member[row].astype(np.float64)) for member in features.members]
        expected.append(stats.entropy(np.mean(softmaxes, axis=0)) - np.mean([stats.entropy(p) for p in softmaxes]))
    scores = MutualInformation().fit().score(features)
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-14)


def test_softmax_of_the_averaged_logits_is_the_mean_softmax_whose_msp_a_deep_ensemble_scores():
    features = toy_features(rows=30)
    mean, scores = logits.log_mean_softmax(stack(features)), DeepEnsemble().fit().score(features)
    for row in range(len(features)):
        expected = np.mean([softmax(member[row].astype(np.float64)) for member in features.members], axis=0)
        np.testing.assert_allclose(softmax(mean[row]), expected, rtol=1e-12)
        assert scores[row] == pytest.approx(1 - expected.max(), abs=1e-15)


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
