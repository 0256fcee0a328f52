"""SHE, ViM, its residual, GradNorm and fDBD against their definitions: loops, projections, derivatives, a solver."""

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from tests.evaluation.detectors.toy import CLASSES, WIDTH, toy_features, toy_head
from tests.sentences import stops
from unknown_detection.evaluation.detectors import FDBD, SHE, GradNorm, Residual, ViM, subspace
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Head

HEAD = toy_head()
FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


def test_she_is_the_inner_product_with_the_pattern_of_the_predicted_class():
    patterns = {}
    for c in range(CLASSES):
        own = [
            z
            for z, logits, y in zip(FITTED.penultimate, FITTED.logits, FITTED.labels, strict=True)
            if y == c == logits.argmax()
        ]
        patterns[c] = np.mean(np.array(own, dtype=np.float64), axis=0)
    expected = [
        -sum(float(x) * s for x, s in zip(z, patterns[logits.argmax()], strict=True))
        for z, logits in zip(TESTED.penultimate, TESTED.logits, strict=True)
    ]
    np.testing.assert_allclose(SHE().fit(FITTED, HEAD).score(TESTED), expected, rtol=1e-12)
    assert (FITTED.logits.argmax(axis=1) != FITTED.labels).any()  # else the rows left out are not tested


def test_she_has_the_mean_of_all_rows_of_a_class_without_right_ones():
    wrong = FITTED.logits.copy()
    wrong[FITTED.labels == 2, 2] = -100
    detector = SHE().fit(dataclasses.replace(FITTED, logits=wrong), HEAD)
    assert detector.remark == "with all rows of class 2, too few of which are classified right"
    rows = TESTED.take(TESTED.logits.argmax(axis=1) == 2)
    pattern = FITTED.penultimate[FITTED.labels == 2].astype(float).mean(axis=0)
    np.testing.assert_allclose(detector.score(rows), -rows.penultimate.astype(float) @ pattern, rtol=1e-12)


def test_she_needs_a_row_of_each_class():
    with stops(EvaluationError):
        SHE().fit(FITTED.take(FITTED.labels != 2), HEAD)


@pytest.mark.parametrize("dimension", [0, 1, 6, 11, None])
def test_residual_and_vim_are_what_the_principal_directions_leave(dimension):
    """By a singular value decomposition; ViM is the virtual logit less the energy."""
    origin = -np.linalg.pinv(HEAD.weight.astype(float)) @ HEAD.bias.astype(float)
    dimensions = WIDTH // 2 if dimension is None else dimension
    principal = np.linalg.svd(FITTED.penultimate.astype(float) - origin)[2][:dimensions]

    def residuals(features):
        differences = features.penultimate.astype(float) - origin
        return np.array([np.linalg.norm(d - principal.T @ (principal @ d)) for d in differences])

    scores = Residual(dimension=dimension).fit(FITTED, HEAD).score(TESTED)
    np.testing.assert_allclose(scores, residuals(TESTED), rtol=1e-9)
    alpha = np.mean(FITTED.logits.max(axis=1).astype(float)) / np.mean(residuals(FITTED))
    expected = alpha * residuals(TESTED) - logsumexp(TESTED.logits.astype(float), axis=1)
    np.testing.assert_allclose(ViM(dimension=dimension).fit(FITTED, HEAD).score(TESTED), expected, rtol=1e-9)


@pytest.mark.parametrize("dimension", [-1, WIDTH, WIDTH + 1, 2.5])
def test_vim_leaves_a_residual(dimension):
    with stops(EvaluationError):
        ViM(dimension=dimension).fit(FITTED, HEAD)


def test_vim_of_fewer_rows_than_dimensions_has_no_residual():
    with stops(EvaluationError):
        ViM().fit(FITTED.take(slice(5)), HEAD)


@pytest.mark.parametrize(("width", "dimension"), [(2048, 1000), (768, 512), (1024, 512), (512, 256), (10, 5)])
def test_principal_dimension_is_that_of_the_authors(width, dimension):
    assert subspace._principal_dimension(width) == dimension


@pytest.mark.parametrize("classes", [4, WIDTH, 20])
@pytest.mark.parametrize("equal_rows", [False, True])
def test_the_origin_is_the_pseudoinverses(classes, equal_rows):
    random = np.random.default_rng(0)
    weight, bias = random.standard_normal((classes, WIDTH)), random.standard_normal(classes)
    if equal_rows:
        weight[-1] = weight[0]
        weight[:, -1] = weight[:, 0]
    fitted = dataclasses.replace(FITTED, logits=random.standard_normal((len(FITTED), classes)))
    detector = Residual().fit(fitted, Head(weight, bias))
    np.testing.assert_allclose(detector.origin, -np.linalg.pinv(weight) @ bias, rtol=1e-9, atol=1e-12)


def test_the_residual_of_a_single_feature_is_its_distance_from_the_origin():
    """Zero dimensions are principal, and -W^+ b is 2 for W = (1, 2) and b = (-2, -4): |3 - 2| = 1."""
    fitted = dataclasses.replace(
        toy_features(rows=2), labels=np.array([0, 1]), logits=np.eye(2), penultimate=np.array([[9.0], [8.0]])
    )
    head = Head(np.array([[1.0], [2.0]]), np.array([-2.0, -4.0]))
    tested = dataclasses.replace(fitted.take([0]), penultimate=np.array([[3.0]]))
    np.testing.assert_allclose(Residual(dimension=0).fit(fitted, head).score(tested), [1.0])


def test_gradnorm_is_the_norm_of_the_loss_gradient_by_the_weights():
    head = dataclasses.replace(HEAD, weight=HEAD.weight.astype(np.float64), bias=HEAD.bias.astype(np.float64))
    detector = GradNorm().fit(None, head)
    step = 1e-6
    for row in range(5):
        z = TESTED.penultimate[row].astype(np.float64)

        def loss(weight, z=z):
            return -np.mean(np.log(softmax(weight @ z + head.bias)))

        gradient = np.zeros_like(head.weight)
        for place in np.ndindex(gradient.shape):
            change = np.zeros_like(gradient)
            change[place] = step
            gradient[place] = (loss(head.weight + change) - loss(head.weight - change)) / (2 * step)
        exact = dataclasses.replace(TESTED.take(slice(row, row + 1)), logits=(z @ head.weight.T + head.bias)[None])
        np.testing.assert_allclose(detector.score(exact), -np.abs(gradient).sum(), rtol=1e-6)


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
    scores = FDBD(centred=centred).fit(FITTED, HEAD).score(TESTED)
    np.testing.assert_allclose(scores, expected, rtol=1e-11)


def test_two_classes_without_a_boundary_are_refused():
    weight = HEAD.weight.copy()
    weight[2] = weight[0]
    with stops(EvaluationError):
        FDBD().fit(FITTED, Head(weight, HEAD.bias))


def test_a_row_at_the_mean_has_no_score():
    tested = dataclasses.replace(TESTED.take([0]), penultimate=np.full((1, WIDTH), 0.5))
    half = dataclasses.replace(
        FITTED, penultimate=np.repeat([[0.0], [1.0]], len(FITTED) // 2, axis=0) * np.ones(WIDTH)
    )
    detector = FDBD().fit(half, HEAD)  # the mean is 0.5 without rounding
    with stops(EvaluationError, tested.ids[0]):
        detector.score(tested)
