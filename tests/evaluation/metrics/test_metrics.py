"""Compares metrics with loops over thresholds and orders of rows, where no library averages over ties."""

from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tests.evaluation.metrics.formulas import eaurc
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.metrics import augrc, aurc, auroc, fpr_at_95_tpr, oscr, risk_coverage


def columns(most):
    """Scores with many ties, and flags; both sides have rows."""
    row = st.tuples(st.integers(0, 5), st.booleans())
    return (
        st.lists(row, min_size=2, max_size=most)
        .map(lambda drawn: tuple(map(list, zip(*drawn, strict=True))))
        .filter(lambda drawn: len(set(drawn[1])) == 2)
    )


def mean_risk(errors):
    """Mean over k of the error rate among the first k, as a fraction."""
    return sum(Fraction(sum(errors[:k]), k) for k in range(1, len(errors) + 1)) / len(errors)


def orders(scores, errors):
    """The errors in every order that the scores allow."""
    for order in permutations(range(len(scores))):
        if all(scores[a] <= scores[b] for a, b in pairwise(order)):
            yield [errors[row] for row in order]


@given(columns(5))
def test_aurc_is_the_expectation_over_the_orders_of_ties(drawn):
    scores, errors = drawn
    risks = [mean_risk(order) for order in orders(scores, errors)]
    assert aurc(scores, errors) == pytest.approx(float(sum(risks) / len(risks)), abs=1e-14)


@given(columns(30))
def test_augrc_is_the_formula_of_its_paper(drawn):
    """Traub et al. (NeurIPS 2024), section 3.2: from the accuracy and the AUROC of errors, here scikit-learn's."""
    scores, errors = drawn
    right = 1 - np.mean(errors)
    expected = right * (1 - right) * (1 - roc_auc_score(errors, scores)) + (1 - right) ** 2 / 2
    assert augrc(scores, errors) == pytest.approx(expected, abs=1e-14)


def test_augrc_by_hand():
    """Shares of accepted errors 0, 1/4, 1/4, 2/4 with lines between them; 0 and 1/2 where nothing can be ordered."""
    assert augrc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == (0 / 2 + 1 / 8 + 1 / 4 + 3 / 8) / 4
    assert augrc([1, 2, 3], [0, 0, 0]) == 0 and augrc([1, 2, 3], [1, 1, 1]) == 0.5


@given(columns(5))
def test_the_excess_is_over_the_best_of_all_orders(drawn):
    scores, errors = drawn
    optimum = min(mean_risk(order) for order in permutations(errors))
    assert eaurc(scores, errors) == pytest.approx(aurc(scores, errors) - float(optimum), abs=1e-14)


def test_a_curve_worked_by_hand():
    # Most trusted first: right; then a tie of one error among two rows; then an error.
    # Errors among the first k: 0, 0.5, 1, 2.
    coverage, risk = risk_coverage([0.3, 0.1, 0.3, 0.9], [1, 0, 0, 1])
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1]
    assert risk.tolist() == pytest.approx([0, 0.25, 1 / 3, 0.5])
    assert aurc([0.3, 0.1, 0.3, 0.9], [1, 0, 0, 1]) == pytest.approx((0.25 + 1 / 3 + 0.5) / 4)
    # Both errors last: risks 0, 0, 1/3, 1/2.
    assert eaurc([0.3, 0.1, 0.3, 0.9], [1, 0, 0, 1]) == pytest.approx(0.25 / 4)


@pytest.mark.parametrize("positives", [*range(1, 100), 1000, 4000, 9973, 10_000])
def test_95_percent_is_counted_in_whole_rows(positives):
    # One unknown row after every known one: the FPR tells how many known rows were needed.
    scores = np.arange(2 * positives)
    needed = -(-95 * positives // 100)
    assert fpr_at_95_tpr(scores, scores % 2, positive="known") == pytest.approx((needed - 1) / positives, abs=1e-12)
    assert fpr_at_95_tpr(-scores, scores % 2 == 0, positive="unknown") == pytest.approx(
        (needed - 1) / positives, abs=1e-12
    )


def test_many_rows_are_counted_exactly():
    # 100,000 of each side in one tie but for one known row below: more pairs than 2**32.
    half = 100_000
    scores = np.ones(2 * half)
    scores[0] = 0
    unknown = np.arange(2 * half) >= half
    assert auroc(scores, unknown) == float(Fraction(half + half * (half - 1) * Fraction(1, 2)) / half**2)


def oscr_by_thresholds(scores, unknown, errors):
    """The area under the points of the definition, one for each threshold, joined by straight lines."""
    scores, unknown, errors = map(np.asarray, (scores, unknown, errors))
    points = [(0.0, 0.0)]
    for threshold in sorted(set(scores.tolist())):
        accepted = scores <= threshold
        ccr = sum(accepted & ~unknown & ~errors) / sum(~unknown)
        points.append((sum(accepted & unknown) / sum(unknown), ccr))
    return sum((x - before) * (y + below) / 2 for (before, below), (x, y) in pairwise(points))


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_oscr_is_the_area_under_the_curve_of_its_definition(drawn):
    scores, unknown, errors = map(np.array, zip(*drawn, strict=True))
    if unknown.all() or not unknown.any():
        with pytest.raises(EvaluationError, match="needs known and unknown rows"):
            oscr(scores, unknown, errors)
        return
    area = oscr(scores, unknown, errors)
    assert area == pytest.approx(oscr_by_thresholds(scores, unknown, errors), abs=1e-12)
    known = ~unknown
    assert 0 <= area <= np.mean(~errors[known]) + 1e-12  # the accuracy on known rows
    assert area == oscr(scores, unknown, errors | unknown)  # an unknown row is no error of classification
    assert area <= auroc(scores, unknown) + 1e-12
    if not errors[known].any():
        assert area == auroc(scores, unknown)
    perfect = np.where(unknown, 9, scores)
    assert oscr(perfect, unknown, errors) == pytest.approx(np.mean(~errors[known]))
