"""Scores of logits against the definitions in many decimal digits, where no probability rounds to one."""

import dataclasses
import functools
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import optimize, special

from tests.evaluation.detectors.toy import CLASSES, FITTED, TESTED, assert_scores
from unknown_detection.evaluation.detectors import (
    GEN,
    MSP,
    Doctor,
    Energy,
    Entropy,
    KLMatching,
    LogitNorm,
    Margin,
    MaxLogit,
    Temperature,
)
from unknown_detection.evaluation.detectors.logits import fit_temperature, msp
from unknown_detection.evaluation.models.features import Features

UNFITTED = (MSP, MaxLogit, Energy, Entropy, Margin, Doctor)


def logits_of(kind, rows=12, classes=5, seed=0):
    random = np.random.default_rng(seed)
    spread = {"even": 0.01, "usual": 3.0, "confident": 60.0, "extreme": 300.0}[kind]
    return random.normal(size=(rows, classes)) * spread


@functools.cache
def in_decimals(row):
    """The scores as their papers write them, by way of probabilities, in 400 digits: enough for a gap of 900."""
    with localcontext() as context:
        context.prec = 400
        logits = [Decimal(float(value)) for value in row]
        powers = [value.exp() for value in logits]
        total = sum(powers)
        p = sorted((power / total for power in powers), reverse=True)
        g = sum(value * value for value in p)
        scores = {
            "msp": 1 - p[0],
            "max_logit": -max(logits),
            "energy": -total.ln(),
            "entropy": -sum(value * value.ln() for value in p),
            "margin": 1 - (p[0] - p[1]),
            "doctor": (1 - g) / g,
        }
        return {name: float(score) for name, score in scores.items()}


@pytest.mark.parametrize("kind", ["even", "usual", "confident", "extreme"])
@pytest.mark.parametrize("detector", UNFITTED)
def test_score_is_the_definition_to_the_last_digits(detector, kind):
    logits = logits_of(kind)
    expected = [in_decimals(tuple(row))[detector.name] for row in logits]
    np.testing.assert_allclose(detector().score(with_logits(logits)), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("detector", [MSP, Entropy, Margin, Doctor])
def test_confident_rows_keep_their_order_in_float32_logits(detector):
    # Gaps of 20 to 300: all greatest probabilities are 1 in float32, nearly all in float64.
    gaps = np.linspace(20, 300, 500, dtype=np.float32)
    logits = np.stack([gaps, np.zeros_like(gaps), -gaps], axis=1)
    assert len(np.unique(special.softmax(logits, axis=1).max(axis=1))) == 1
    assert (np.diff(detector().score(with_logits(logits))) < 0).all()


def with_logits(logits, labels=None):
    count = len(logits)
    return Features(
        ids=np.array([f"row-{i}" for i in range(count)]),
        labels=np.zeros(count, np.int64) if labels is None else labels,
        logits=logits,
        penultimate=np.zeros((count, 1)),
        blocks=(),
    )


def test_logit_norm_is_the_negated_euclidean_norm():
    assert LogitNorm().score(with_logits(np.array([[3.0, 4.0], [0.0, -2.0]]))).tolist() == [-5.0, -2.0]


def calibrated(true_temperature, rows=3000, classes=10, seed=0):
    """Logits that are right probabilities once divided by the temperature, and labels drawn from these."""
    random = np.random.default_rng(seed)
    right = random.normal(size=(rows, classes)) * 2
    labels = np.array([random.choice(classes, p=p) for p in special.softmax(right, axis=1)])
    return with_logits((right * true_temperature).astype(np.float32), labels)


def likelihood_loss(features, temperature):
    scaled = features.logits.astype(np.float64) / temperature
    return -special.log_softmax(scaled, axis=1)[np.arange(len(features)), features.labels].mean()


@pytest.mark.parametrize("true_temperature", [0.206, 1.0, 5.05, 20.8])
def test_fitted_temperature_minimizes_the_likelihood_loss(true_temperature):
    features = calibrated(true_temperature)
    fitted = fit_temperature(features)
    assert fitted == pytest.approx(true_temperature, rel=0.05)  # 3,000 labels determine it to about 2 %
    reference = optimize.minimize_scalar(
        lambda log: likelihood_loss(features, np.exp(log)), bounds=(-4, 5), method="bounded", options={"xatol": 1e-10}
    )
    assert fitted == pytest.approx(np.exp(reference.x), rel=1e-6)  # a minimum is flat: no search finds it closer
    assert likelihood_loss(features, fitted) <= reference.fun + 1e-15


def test_temperature_without_an_optimum_is_a_bound():
    labels = np.array([0, 1, 0])
    right = with_logits(np.array([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), labels)
    assert fit_temperature(right) == 0.05
    wrong = with_logits(right.logits[:, ::-1], labels)
    assert fit_temperature(wrong) == 100.0


def test_temperature_scores_are_msp_at_the_fitted_or_given_temperature():
    features = calibrated(2.0, rows=200)
    detector = Temperature().fit(features)
    np.testing.assert_array_equal(detector.score(features), msp(features.logits.astype(np.float64), detector.fitted))
    hot = Temperature(temperature=1000.0).fit(features)
    np.testing.assert_array_equal(hot.score(features), msp(features.logits.astype(np.float64), 1000.0))


DIGITS = 200
"""The complement of a confident probability is 1e-163 here."""


def probabilities(logits):
    """Softmax with as many digits as the context has."""
    exponentials = [Decimal(float(value)).exp() for value in logits]
    total = sum(exponentials)
    return [value / total for value in exponentials]


def generalized_entropy(logits, gamma, largest):
    with localcontext() as context:
        context.prec = DIGITS
        greatest = sorted(probabilities(logits), reverse=True)[:largest]
        return float(sum((p * (1 - p)) ** Decimal(gamma) for p in greatest))


@pytest.mark.parametrize("gamma", [0.01, 0.1, 10.0])
@pytest.mark.parametrize("largest", [1, 2, 100])
@pytest.mark.parametrize("factor", [1, 20])  # confident rows keep their digits
def test_gen_is_the_sum_over_the_greatest_probabilities(gamma, largest, factor):
    tested = dataclasses.replace(TESTED, logits=factor * TESTED.logits)
    expected = [generalized_entropy(logits, gamma, largest) for logits in tested.logits]
    assert_scores(GEN(gamma=gamma, largest=largest), expected, tested=tested)


def divergences(fitted, tested):
    """The smallest sum of p log(p / d), by loops over rows and classes."""
    with localcontext() as context:
        context.prec = 60
        softmaxes = [probabilities(logits) for logits in fitted.logits]
        typical = {}
        for k in range(CLASSES):
            own = [p for p, logits in zip(softmaxes, fitted.logits, strict=True) if logits.argmax() == k]
            if own:
                typical[k] = [sum(values) / len(own) for values in zip(*own, strict=True)]
        scores = []
        for logits in tested.logits:
            p = probabilities(logits)
            sums = [sum(a * (a / b).ln() for a, b in zip(p, d, strict=True)) for d in typical.values()]
            scores.append(float(min(sums)))
    return scores, typical


def test_kl_matching_is_the_smallest_divergence_from_a_mean_softmax():
    expected, typical = divergences(FITTED, TESTED)
    assert len(typical) == CLASSES
    assert_scores(KLMatching(), expected, 1e-9)


def test_classes_that_are_never_predicted_have_no_typical_softmax():
    fitted = FITTED.take(FITTED.logits.argmax(axis=1) != 2)
    expected, typical = divergences(fitted, TESTED)
    assert set(typical) == {0, 1, 3}
    assert_scores(KLMatching(), expected, 1e-9, fitted)


def test_a_probability_that_underflows_leaves_the_divergence_finite():
    fitted = dataclasses.replace(FITTED, logits=2000 * FITTED.logits)
    scores = KLMatching().fit(fitted).score(TESTED)
    assert np.isfinite(scores).all()
