"""Compares detectors over several models by their ranks: Friedman's test, and Nemenyi's critical difference.

Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets (JMLR 7, 2006), sections 3.2.2 and 3.2.4, with
models in the place of data sets.

Tested by `tests/evaluation/metrics/test_ranks.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

LEVEL = 0.05
"""The level of the critical difference: the paper's examples have it, too."""


class Ranks(NamedTuple):
    """How detectors rank over N models; numbers are NaN where no two values of any model differ.

    Attributes:
        mean: each detector's mean rank, 1 for the best; ties share their mean.
        chi_squared: Friedman's statistic, corrected for ties as scipy does; the paper's formula is for none.
        p: its p-value by the chi-squared distribution, too high for few models (the paper asks for more than 10).
        difference: the critical difference: mean ranks that are further apart differ at `LEVEL`.
    """

    mean: pd.Series
    chi_squared: float
    p: float
    difference: float


def compare_ranks(values: pd.DataFrame) -> Ranks:
    """Rank three or more detectors, the columns, over two or more models, the rows; higher values are better."""
    models, detectors = values.shape
    with np.errstate(divide="ignore", invalid="ignore"):  # of models that all agree, or all tie
        chi_squared, p = stats.friedmanchisquare(*values.to_numpy().T)
    quantile = stats.studentized_range.ppf(1 - LEVEL, detectors, np.inf) / np.sqrt(2)
    difference = quantile * np.sqrt(detectors * (detectors + 1) / (6 * models))
    mean = values.rank(axis=1, ascending=False).mean()
    return Ranks(mean, float(chi_squared), float(p), float(difference))
