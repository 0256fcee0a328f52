"""fDBD, CARef and CADRef against their definitions, and SHE; others are in `test_against_pytorch_ood.py`."""

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.evaluation.detectors.toy import CLASSES, FITTED, HEAD, TESTED, assert_scores
from unknown_detection.evaluation.detectors import FDBD, SHE, CADRef, CARef


def test_she_has_the_mean_of_all_rows_of_a_class_without_right_ones():
    wrong = FITTED.logits.copy()
    wrong[FITTED.labels == 2, 2] = -100
    detector = SHE().fit(dataclasses.replace(FITTED, logits=wrong), HEAD)
    assert detector.remark == "with all rows of class 2, too few of which are classified right"
    rows = TESTED.take(TESTED.logits.argmax(axis=1) == 2)
    pattern = FITTED.penultimate[FITTED.labels == 2].astype(float).mean(axis=0)
    np.testing.assert_allclose(detector.score(rows), -rows.penultimate.astype(float) @ pattern, rtol=1e-12)


@pytest.mark.parametrize("centred", [1, 0])
def test_fdbd_is_the_mean_distance_to_the_nearest_points_with_equal_logits(centred):
    """The least-norm step to the hyperplane on which two logits are equal, found by least squares."""
    weight, bias = HEAD.weight.astype(float), HEAD.bias.astype(float)
    mean = np.mean([z.astype(float) for z in FITTED.penultimate], axis=0)
    expected = []
    for z in TESTED.penultimate.astype(float):
        logits = [sum(weight[c] * z) + bias[c] for c in range(CLASSES)]
        y = int(np.argmax(logits))
        steps = [
            np.linalg.norm(np.linalg.lstsq((weight[y] - weight[c])[None], [logits[c] - logits[y]], rcond=None)[0])
            for c in range(CLASSES)
            if c != y
        ]
        expected.append(-np.mean(steps) / np.linalg.norm(z - mean if centred else z))
    assert_scores(FDBD(centred=centred), expected, 1e-11)


def means_of(features, classes):
    return [np.mean([z for z, c in zip(features.penultimate.astype(float), classes, strict=True) if c == one], axis=0)
            for one in range(CLASSES)]  # fmt: skip


def test_caref_and_cadref_are_distances_to_the_mean_of_the_rows_predicted_alike():
    means = means_of(FITTED, FITTED.logits.argmax(axis=1))
    mean_energy = np.mean(logsumexp(FITTED.logits.astype(float), axis=1))
    plain, decoupled = [], []
    for z, logits in zip(TESTED.penultimate.astype(float), TESTED.logits, strict=True):
        y = int(np.argmax(logits))
        pairs = [(x - m, w) for x, m, w in zip(z, means[y], HEAD.weight[y], strict=True)]
        along = sum(abs(d) for d, w in pairs if d * w > 0) / sum(abs(z))
        against = sum(abs(d) for d, w in pairs if d * w < 0) / sum(abs(z))
        plain.append(along + against)
        decoupled.append(along / logsumexp(logits.astype(float)) + against / mean_energy)
    assert_scores(CARef(), plain, 1e-10)
    assert_scores(CADRef(), decoupled, 1e-6)


def test_a_class_that_is_never_predicted_has_the_mean_of_its_labels():
    logits = FITTED.logits.copy()
    logits[:, 2] = -100
    detector = CARef().fit(dataclasses.replace(FITTED, logits=logits))
    np.testing.assert_allclose(detector.means[2], means_of(FITTED, FITTED.labels)[2], rtol=1e-10)
