"""GEN and KL matching against their definitions in high precision, and worked by hand."""

import dataclasses
from decimal import Decimal, localcontext

import numpy as np
import pytest

from tests.evaluation.detectors.toy import CLASSES, toy_features
from unknown_detection.evaluation.detectors import GEN, KLMatching

FITTED, TESTED = toy_features(seed=1), toy_features(rows=20, seed=2, unknown=10)


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
def test_gen_is_the_sum_over_the_greatest_probabilities(gamma, largest):
    expected = [generalized_entropy(logits, gamma, largest) for logits in TESTED.logits]
    given = GEN(gamma=gamma, largest=largest).fit().score(TESTED)
    np.testing.assert_allclose(given, expected, rtol=1e-12)


def test_gen_keeps_the_digits_of_confident_rows():
    sure = dataclasses.replace(TESTED, logits=20 * TESTED.logits)
    expected = [generalized_entropy(logits, 0.1, 100) for logits in sure.logits]
    np.testing.assert_allclose(GEN().fit().score(sure), expected, rtol=1e-12)


def test_gen_worked_by_hand():
    rows = dataclasses.replace(TESTED.take([0]), logits=np.log([[0.5, 0.25, 0.25]]))
    half = GEN(gamma=0.5).fit().score(rows)
    np.testing.assert_allclose(half, 0.5 + 2 * np.sqrt(3) / 4)
    two = GEN(gamma=1, largest=2).fit().score(rows)
    np.testing.assert_allclose(two, 1 / 4 + 3 / 16)


def test_several_gen_score_together_as_each_does():
    sets = [(0.1, 100), (0.1, 2), (2.0, 3), (0.5, 1)]
    detectors = [GEN(gamma=gamma, largest=largest).fit() for gamma, largest in sets]
    together = GEN.score_together(detectors, TESTED)
    for detector, scores in zip(detectors, together, strict=True):
        np.testing.assert_array_equal(scores, detector.score(TESTED))
    assert len({scores.tobytes() for scores in together}) == len(sets)


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
    given = KLMatching().fit(FITTED).score(TESTED)
    np.testing.assert_allclose(given, expected, rtol=1e-9)


def test_classes_that_are_never_predicted_have_no_typical_softmax():
    fitted = FITTED.take(FITTED.logits.argmax(axis=1) != 2)
    expected, typical = divergences(fitted, TESTED)
    assert set(typical) == {0, 1, 3}
    np.testing.assert_allclose(KLMatching().fit(fitted).score(TESTED), expected, rtol=1e-9)


def test_kl_matching_worked_by_hand():
    """Typical are (3/4, 1/4) and (1/8, 7/8); (1/2, 1/2) is nearer to the first."""
    fitted = toy_features(rows=3)
    fitted = dataclasses.replace(
        fitted, labels=np.array([0, 0, 1]), logits=np.log([[0.6, 0.4], [0.9, 0.1], [1 / 8, 7 / 8]])
    )
    tested = dataclasses.replace(fitted, logits=np.log([[0.5, 0.5], [0.75, 0.25], [1 / 8, 7 / 8]]))
    given = KLMatching().fit(fitted).score(tested)
    np.testing.assert_allclose(given, [0.5 * np.log(4 / 3), 0, 0], atol=1e-15)


def test_a_probability_that_underflows_leaves_the_divergence_finite():
    fitted = dataclasses.replace(FITTED, logits=2000 * FITTED.logits)
    scores = KLMatching().fit(fitted).score(TESTED)
    assert np.isfinite(scores).all()
