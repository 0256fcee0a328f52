"""fDBD against distances to hyperplanes that a solver finds, and worked by hand."""

import dataclasses

import numpy as np
import pytest

from tests.evaluation.detectors.toy import CLASSES, WIDTH, toy_features, toy_head
from unknown_detection.evaluation.detectors import FDBD
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Head

HEAD = toy_head()
FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


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
    given = FDBD(centred=centred).fit(FITTED, HEAD).score(TESTED)
    np.testing.assert_allclose(given, expected, rtol=1e-11)


def test_fdbd_worked_by_hand():
    """Weights (1, 0), (0, 1), (0, 0): from (3, 0), 3/sqrt(2) and 3; the mean of the fitted rows is (0, 4)."""
    head = Head(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.zeros(3))
    fitted = toy_features(rows=3)
    fitted = dataclasses.replace(
        fitted,
        labels=np.array([0, 1, 2]),
        logits=fitted.logits[:, :3],
        penultimate=np.array([[1.0, 3.0], [-1.0, 5.0], [0.0, 4.0]]),
    )
    tested = dataclasses.replace(fitted.take([0]), penultimate=np.array([[3.0, 0.0]]))
    expected = -(3 / np.sqrt(2) + 3) / 2
    np.testing.assert_allclose(FDBD().fit(fitted, head).score(tested), expected / 5)
    np.testing.assert_allclose(FDBD(centred=0).fit(fitted, head).score(tested), expected / 3)


def test_two_classes_without_a_boundary_are_refused():
    weight = HEAD.weight.copy()
    weight[2] = weight[0]
    with pytest.raises(EvaluationError, match=r"Two classes of the last layer have the same weights.*Leave fdbd out"):
        FDBD().fit(FITTED, Head(weight, HEAD.bias))


def test_a_row_at_the_mean_has_no_score():
    tested = dataclasses.replace(TESTED.take([0]), penultimate=np.full((1, WIDTH), 0.5))
    half = dataclasses.replace(
        FITTED, penultimate=np.repeat([[0.0], [1.0]], len(FITTED) // 2, axis=0) * np.ones(WIDTH)
    )
    detector = FDBD().fit(half, HEAD)  # the mean is 0.5 without rounding
    with pytest.raises(EvaluationError, match=f"The score of '{tested.ids[0]}' is -inf"):
        detector.score(tested)
