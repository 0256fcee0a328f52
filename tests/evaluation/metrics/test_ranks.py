"""Ranks over several models: Demšar's worked example (JMLR 2006, table 6), and scipy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from unknown_detection.evaluation.metrics.ranks import compare_ranks

# AUC of C4.5 without and with tuned parameters m, cf and both, on 14 data sets, by their ranks in table 6.
DEMSAR = """
4 3 2 1
1 2 3 4
4 1 2 3
4 1 3 2
4 2 3 1
1 2.5 4 2.5
3 2 4 1
2.5 2.5 4 1
4 3 2 1
2.5 2.5 2.5 2.5
4 2.5 1 2.5
3 2 4 1
4 1 2 3
3 1 4 2
"""


def test_the_worked_example_of_the_paper():
    """Mean ranks, Friedman's statistic and the critical difference, as printed there."""
    table = pd.DataFrame([line.split() for line in DEMSAR.split("\n") if line], columns=[*"abcd"]).astype(float)
    found = compare_ranks(-table)
    assert found.mean.round(3).tolist() == [3.143, 2.000, 2.893, 1.964]
    # The paper does not correct for ties: 3 pairs and one of 4 (t^3 - t each) of N k (k^2 - 1).
    uncorrected = found.chi_squared * (1 - (3 * 6 + 60) / (14 * 4 * 15))
    assert uncorrected == pytest.approx(9.28, abs=0.005)
    assert found.difference == pytest.approx(1.25, abs=0.005)
    # Its table 5: critical values of Nemenyi's test at 0.05 for 2 to 10 classifiers.
    for count, value in zip(range(3, 11), (2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164), strict=True):
        values = np.random.default_rng(count).random((6, count))
        scale = np.sqrt(count * (count + 1) / 36)
        assert compare_ranks(pd.DataFrame(values)).difference / scale == pytest.approx(value, abs=0.001)


def test_scipy_agrees_and_ties_and_agreement_are_no_errors():
    values = pd.DataFrame(np.random.default_rng(0).random((7, 5)).round(1))
    found = compare_ranks(values)
    assert (found.chi_squared, found.p) == stats.friedmanchisquare(*values.to_numpy().T)
    assert found.mean.tolist() == np.mean([stats.rankdata(-row) for row in values.to_numpy()], axis=0).tolist()
    agreed = compare_ranks(pd.DataFrame([[1, 2, 3]] * 4))
    assert agreed.chi_squared == 8
    tied = compare_ranks(pd.DataFrame([[1, 1, 1]] * 4))
    assert np.isnan([tied.chi_squared, tied.p]).all() and tied.mean.tolist() == [2, 2, 2]
