"""OpenMax against its algorithm written row by row, its Weibull fits against SciPy's likelihood and libmr."""

import dataclasses
import warnings

import numpy as np
import pytest
from scipy import optimize, stats

from tests.evaluation.detectors.toy import CLASSES, toy_features
from unknown_detection.evaluation.detectors import DETECTORS, OpenMax, openmax

FITTED, TESTED = toy_features(rows=400, seed=1), toy_features(rows=30, seed=2, unknown=20)
TRANSLATIONS = (1.0, 10_000.0)  # of libmr 0.1.9, and of libMR before


def moved(tail, translation):
    return tail + translation - tail.min()


def log_likelihood(shape, values):
    """Of the best scale for this shape."""
    logs = np.log(values)
    log_scale = (np.logaddexp.reduce(shape * logs) - np.log(len(values))) / shape
    return stats.weibull_min.logpdf(values, shape, scale=np.exp(log_scale)).sum()


def random_tails(sizes, seed=0):
    random = np.random.default_rng(seed)
    tails = np.full((len(sizes), max(sizes)), np.nan)
    for row, size in enumerate(sizes):
        tails[row, :size] = random.gamma(2.0, size=size) * 10.0 ** random.integers(-3, 3)
    return tails


@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_shape_has_the_greatest_likelihood(translation):
    tails = random_tails([20, 20, 7, 3, 2, 20, 11, 20])
    fitted = openmax.fit_tails(tails, translation)
    for row, tail in enumerate(tails):
        values = moved(tail[~np.isnan(tail)], translation)
        optimum = optimize.minimize_scalar(
            lambda log, values=values: -log_likelihood(np.exp(log), values),
            bounds=(np.log(fitted.shape[row]) - 3, np.log(fitted.shape[row]) + 3),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert np.log(fitted.shape[row]) == pytest.approx(optimum.x, abs=1e-5)  # a maximum is flat
        assert log_likelihood(fitted.shape[row], values) >= -optimum.fun - 1e-6


# `w_score` of libmr 0.1.9's MR(translate_amount=...) after fit_high of the whole tail, at the distances.
LIBMR_AT = (0.2, 0.5, 1.0, 2.0, 3.0)
LIBMR = {
    (0.31, 0.35, 0.4, 0.42, 0.57, 0.66, 0.9): {
        1: (0.0945603816, 0.451896061, 0.994952449, 1.0, 1.0),
        10_000: (0.128913908, 0.433350312, 0.997528917, 1.0, 1.0),
    },
    (1.5, 1.7, 2.6): {
        1: (0.0, 0.0, 0.0224281707, 0.552173269, 0.985290773),
        10_000: (0.0149190578, 0.027953162, 0.078385442, 0.491637035, 0.996325538),
    },
}
# libmr ends its search for the shape once it is right to six digits.
LIBMR_DIGITS = 1e-5


def probabilities(tail, translation, distances):
    fitted = openmax.fit_tails(np.array([tail]), translation)
    hazard = fitted.log_hazard(np.array(distances), np.zeros(len(distances), dtype=np.int64))
    return -np.expm1(-np.exp(np.minimum(hazard, 700)))


@pytest.mark.parametrize("tail", LIBMR)
def test_probabilities_are_those_that_libmr_gave(tail):
    for translation, expected in LIBMR[tail].items():
        np.testing.assert_allclose(probabilities(tail, translation, LIBMR_AT), expected, rtol=0, atol=LIBMR_DIGITS)


def test_distances_far_below_the_tail_have_no_hazard():
    fitted = openmax.fit_tails(np.array([[20_000.0, 20_001.0, 20_003.0]]), 10_000.0)
    assert np.exp(fitted.log_hazard(np.array([0.0]), np.array([0]))) == 0.0


def distance(row, mean, weights):
    cosine = 1 - row @ mean / (np.linalg.norm(row) * np.linalg.norm(mean))
    return weights[0] * np.linalg.norm(row - mean) + weights[1] * cosine


def by_the_algorithm(fitted, tested, revised, tail, weights, constant, translation):
    """Bendale and Boult's algorithms 1 and 2, a row and a class at a time: probabilities instead of their odds."""
    logits = fitted.logits.astype(np.float64)
    means, distributions = {}, {}
    for c in range(CLASSES):
        own = logits[(fitted.labels == c) & (logits.argmax(axis=1) == c)]
        means[c] = own.mean(axis=0)
        largest = np.array(sorted(distance(row, means[c], weights) for row in own)[-tail:])
        fit = openmax.fit_tails(largest[None], translation)
        values = moved(largest, translation)
        scale = values.max() * np.exp(fit.log_scale[0])
        distributions[c] = stats.weibull_min(fit.shape[0], loc=largest.min() - translation, scale=scale)
    probabilities, predictions = [], []
    for row in tested.logits.astype(np.float64):
        activations, unknown = list(row), 0.0
        for rank, c in enumerate(sorted(range(CLASSES), key=lambda c: -row[c])[:revised], start=1):
            share = constant or (revised + 1 - rank) / revised
            outlying = distributions[c].cdf(distance(row, means[c], weights)) * share
            activations[c] = row[c] * (1 - outlying)
            unknown += row[c] * outlying
        powers = np.exp([unknown, *activations])
        probabilities.append(powers[0] / powers.sum())
        predictions.append(np.argmax(powers) - 1)
    return np.array(probabilities), np.array(predictions)


@pytest.mark.parametrize(
    ("revised", "tail", "weights", "constant"),
    [
        (1, 20, (1.0, 0.0), 0.0),
        (2, 10, (0.5, 0.5), 0.0),
        (4, 20, (0.005, 1.0), 0.5),  # the unified benchmark's for CIFAR
        (4, 20, (0.005, 1.0), 0.0),  # and for ImageNet
        (4, 1000, (0.0, 1.0), 0.0),
    ],
)
@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_score_is_the_log_odds_of_the_unknown_class(revised, tail, weights, constant, translation):
    hyperparameters = {"euclidean_weight": weights[0], "cosine_weight": weights[1], "rank_weight": constant}
    detector = OpenMax(revised=revised, tail=tail, translation=translation, **hyperparameters).fit(FITTED)
    expected, predicted = by_the_algorithm(FITTED, TESTED, revised, tail, weights, constant, translation)
    odds = np.exp(detector.score(TESTED))
    np.testing.assert_allclose(odds / (1 + odds), expected, rtol=1e-6)
    assert detector.predict(TESTED).tolist() == predicted.tolist()


def test_the_defaults_are_the_unified_benchmark_s():
    """0.005 of the Euclidean distance and all of the cosine distance; rejected rows are predicted as no class.

    Its code calls `libmr.MR()` without arguments, whose translation is 1; OD-test and pytorch-ood have 10,000.
    """
    detector = OpenMax().fit(FITTED)
    hyperparameters = {"euclidean_weight": 0.005, "cosine_weight": 1.0, "rank_weight": 0.0, "translation": 1}
    for revised in (10, CLASSES):  # no more than there are
        explicit = OpenMax(revised=revised, tail=20, **hyperparameters).fit(FITTED)
        np.testing.assert_array_equal(detector.score(TESTED), explicit.score(TESTED))
    assert DETECTORS["openmax"].search == {"revised": (10, 1, 5, 20, 30, 40), "tail": (20, 2, 5, 10, 30, 40)}
    assert {-1, 0} < set(detector.predict(TESTED).tolist())
    assert not np.allclose(detector.score(TESTED), OpenMax(translation=10_000).fit(FITTED).score(TESTED), atol=0.01)


def test_far_rows_keep_an_order_that_the_probability_has_lost():
    far = np.zeros((3, CLASSES))
    far[:, 0] = [100.0, 200.0, 300.0]
    far[:, 1] = far[:, 0] - 1
    detector = OpenMax().fit(FITTED)
    rows = dataclasses.replace(TESTED.take(slice(3)), logits=far)
    scores = detector.score(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        farther = dataclasses.replace(rows, logits=1e4 * far)  # a hazard of more than exp(709)
        assert detector.predict(farther).tolist() == [-1, -1, -1]
    probabilities = 1 / (1 + np.exp(-scores))
    assert len(np.unique(probabilities)) < 3
    assert (np.diff(scores) > 0).all()


def with_wrong_rows(of_class, right):
    """The fitted rows, of which `right` of a class stay classified right."""
    logits = FITTED.logits.copy()
    rows = np.flatnonzero(FITTED.labels == of_class)[right:]
    logits[rows, of_class] = logits[rows].min(axis=1) - 1
    return dataclasses.replace(FITTED, logits=logits)


def test_a_class_with_too_few_right_rows_is_fitted_on_all_of_its_rows():
    fitted = with_wrong_rows(1, right=2)
    detector = OpenMax().fit(fitted)
    assert detector.remark == "with all rows of class 1, too few of which are classified right"
    right = (fitted.logits.argmax(axis=1) == fitted.labels) | (fitted.labels == 1)
    means = [fitted.logits[right & (fitted.labels == c)].astype(float).mean(axis=0) for c in range(CLASSES)]
    np.testing.assert_allclose(detector.means, means, rtol=1e-12)
    assert np.isfinite(detector.score(TESTED)).all()
    assert OpenMax().fit(FITTED).remark == ""
