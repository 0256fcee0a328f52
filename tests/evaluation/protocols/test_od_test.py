"""OD-test against a search over all thresholds, written as loops."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluation.made_rows import make_rows, only
from tests.evaluation.refusals import refusal
from unknown_detection.evaluation.protocols.od_test import STATISTICS, figures, threshold

RANDOM = np.random.default_rng(2)
VALIDATION, TEST = RANDOM.normal(size=30), RANDOM.normal(size=50)
SETS = {
    "near_ood": RANDOM.normal(size=20) + 0.7,
    "far_ood_dtd": RANDOM.normal(size=25) + 2,
    "far_ood_svhn": RANDOM.normal(size=40) + 4,
}
GROUPS = (
    ("cifar", "validation", "in_distribution", VALIDATION),
    ("cifar", "test", "in_distribution", TEST),
    *(
        ("cifar", split, split.rpartition("_")[0] if "far" in split else split, scores)
        for split, scores in SETS.items()
    ),
    ("cifar", "external_validation", "external", RANDOM.normal(size=30)),
)


def accuracy(cut, known, unknown):
    return (np.mean(np.asarray(known) <= cut) + np.mean(np.asarray(unknown) > cut)) / 2


def best_cut(known, unknown):
    cuts = sorted({*known, *unknown})
    best = max(accuracy(cut, known, unknown) for cut in cuts)
    return next(cut for cut in cuts if accuracy(cut, known, unknown) >= best - 1e-12)


columns = st.lists(st.integers(0, 9), min_size=1, max_size=20)


@given(columns, columns)
def test_the_threshold_is_the_lowest_of_the_best(known, unknown):
    scores = np.array([*known, *unknown], dtype=float)
    assert threshold(scores, np.arange(len(scores)) >= len(known)) == best_cut(known, unknown)


def test_a_threshold_needs_both_sides():
    assert "3 known and 0 unknown" in refusal(threshold, np.arange(3.0), np.zeros(3, dtype=bool))


def test_every_ordered_pair_is_fitted_on_one_set_and_judged_on_the_other():
    measured = [f for f in figures(make_rows(*GROUPS)) if f["setting"] == "od_test" and not f["statistic"]]
    assert {(f["fitted_on"], f["unknown"]) for f in measured} == {*permutations(SETS, 2)}
    for figure in measured:
        cut = best_cut(VALIDATION, SETS[figure["fitted_on"]])
        assert figure["value"] == pytest.approx(accuracy(cut, TEST, SETS[figure["unknown"]]), abs=1e-12)
        assert (figure["n_known"], figure["n_unknown"]) == (50, len(SETS[figure["unknown"]]))


@pytest.mark.parametrize("split", SETS)
def test_the_two_dataset_figure_is_fitted_and_judged_on_halves_of_one_set(split):
    # Ids end with the row's number, so that the halves are the even and the odd rows.
    figure = only(figures(make_rows(*GROUPS)), setting="two_dataset", unknown=split, statistic="")
    halves = SETS[split][::2], SETS[split][1::2]
    ways = [accuracy(best_cut(VALIDATION, fit), TEST, judge) for fit, judge in (halves, halves[::-1])]
    assert figure["value"] == pytest.approx(np.mean(ways), abs=1e-12)
    assert (figure["fitted_on"], figure["n_unknown"]) == (split, len(SETS[split]))


@pytest.mark.parametrize(("setting", "n"), [("od_test", 6), ("two_dataset", 3)])
def test_all_figures_are_summed_up(setting, n):
    measured = [f for f in figures(make_rows(*GROUPS)) if f["setting"] == setting]
    plain = [f["value"] for f in measured if not f["statistic"]]
    statistics = {f["statistic"]: f["value"] for f in measured if f["statistic"]}
    assert len(plain) == n
    assert statistics.keys() == STATISTICS.keys()
    lowest, quarter, middle, three_quarters, highest = np.percentile(plain, [0, 25, 50, 75, 100])
    assert statistics == pytest.approx(
        {
            "mean": np.mean(plain),
            "standard_deviation": np.sqrt(np.mean((np.array(plain) - np.mean(plain)) ** 2)),
            "min": lowest,
            "lower_quartile": quarter,
            "median": middle,
            "upper_quartile": three_quarters,
            "max": highest,
        }
    )
