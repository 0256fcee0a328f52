"""CARef and CADRef against their definitions, by loops."""

import dataclasses

import numpy as np
import pytest

from tests.evaluation.detectors.toy import CLASSES, WIDTH, toy_features, toy_head
from unknown_detection.evaluation.detectors import CADRef, CARef
from unknown_detection.evaluation.errors import EvaluationError

HEAD = toy_head()
FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


def means_of(features, classes):
    return [np.mean([z for z, c in zip(features.penultimate.astype(float), classes, strict=True) if c == one], axis=0)
            for one in range(CLASSES)]  # fmt: skip


def energy(logits):
    return np.log(sum(np.exp(float(one)) for one in logits))


def test_scores_are_distances_to_the_mean_of_the_rows_predicted_alike():
    means = means_of(FITTED, FITTED.logits.argmax(axis=1))
    mean_energy = np.mean([energy(logits) for logits in FITTED.logits])
    plain, decoupled = [], []
    for z, logits in zip(TESTED.penultimate.astype(float), TESTED.logits, strict=True):
        y = int(np.argmax(logits))
        pairs = [(x - m, w) for x, m, w in zip(z, means[y], HEAD.weight[y], strict=True)]
        along = sum(abs(d) for d, w in pairs if d * w > 0) / sum(abs(z))
        against = sum(abs(d) for d, w in pairs if d * w < 0) / sum(abs(z))
        plain.append(along + against)
        decoupled.append(along / energy(logits) + against / mean_energy)
    np.testing.assert_allclose(CARef().fit(FITTED).score(TESTED), plain, rtol=1e-10)
    np.testing.assert_allclose(CADRef().fit(FITTED, HEAD).score(TESTED), decoupled, rtol=1e-6)


def test_a_class_that_is_never_predicted_has_the_mean_of_its_labels():
    logits = FITTED.logits.copy()
    logits[:, 2] = -100
    detector = CARef().fit(dataclasses.replace(FITTED, logits=logits))
    np.testing.assert_allclose(detector.means[2], means_of(FITTED, FITTED.labels)[2], rtol=1e-10)


def test_a_row_of_zeros_has_no_score():
    zeros = dataclasses.replace(TESTED.take([0]), penultimate=np.zeros((1, WIDTH)))
    for detector in (CARef().fit(FITTED), CADRef().fit(FITTED, HEAD)):
        with pytest.raises(EvaluationError, match=f"The score of '{zeros.ids[0]}' is inf"):
            detector.score(zeros)
