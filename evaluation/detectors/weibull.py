"""Fits Weibull distributions to the largest distances of many classes at once.

Tested by `tests/evaluation/detectors/test_openmax.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.detectors.rows import Doubles

# libMR, which the authors of OpenMax use, shifts a tail to start here before fitting. A number this far from 0 makes
# the shape parameter large and the fit nearly a Gumbel distribution of minima, so it is part of the method.
_TRANSLATION = 10_000.0

# The shape is the inverse of the spread of log(distance): these bounds allow tails whose width is 1e-10 to 1e+6 of
# their position.
_LEAST_LOG_SHAPE, _GREATEST_LOG_SHAPE = np.log(1e-6), np.log(1e10)
_HALVINGS = 100


@dataclass(frozen=True)
class Tails:
    """One Weibull distribution for each of C classes, over distances shifted by `_TRANSLATION` - least.

    Attributes:
        least: smallest distance of the tail, shape (C,).
        greatest: largest distance of the tail, shape (C,).
        shape: shape parameter k, shape (C,).
        log_scale: log of the scale parameter divided by the greatest shifted distance, shape (C,).
    """

    least: Doubles
    greatest: Doubles
    shape: Doubles
    log_scale: Doubles

    def log_hazard(self, distances: Doubles, classes: npt.NDArray[np.int64]) -> Doubles:
        """Compute log (x / scale)^k of distances and their classes, of any one shape.

        The cumulative probability is 1 - exp(-(x / scale)^k). Minus infinity where the shifted distance is not
        positive.
        """
        span = _TRANSLATION + self.greatest[classes] - self.least[classes]
        # Relative to the greatest, not to 0: k is of the size of `_TRANSLATION`, and amplifies every lost digit.
        relative = np.maximum((distances - self.greatest[classes]) / span, -1.0)
        with np.errstate(divide="ignore"):
            place = np.log1p(relative)
        hazard: Doubles = self.shape[classes] * (place - self.log_scale[classes])
        return hazard


def fit_tails(tails: Doubles) -> Tails:
    """Fit each class's Weibull distribution by maximum likelihood.

    With u = log x, the shape k solves sum e^(k u) u / sum e^(k u) - 1/k = mean u, whose left side increases with k;
    the scale is then (mean x^k)^(1/k). All classes are solved together by bisection in log k.

    Source: the likelihood equations of the two-parameter Weibull distribution (Cohen, Technometrics 7, 1965).

    Args:
        tails: the largest distances of each class, shape (C, m), padded with NaN for classes with fewer. Each class
            needs two different distances.
    """
    given = ~np.isnan(tails)
    least, greatest = np.nanmin(tails, axis=1), np.nanmax(tails, axis=1)
    span = _TRANSLATION + greatest - least
    logs = np.where(given, np.log1p(np.where(given, tails - greatest[:, None], 0.0) / span[:, None]), -np.inf)
    finite = np.where(given, logs, 0.0)
    count = given.sum(axis=1)
    mean = finite.sum(axis=1) / count

    low, high = np.full(len(tails), _LEAST_LOG_SHAPE), np.full(len(tails), _GREATEST_LOG_SHAPE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shape = np.exp(middle)
        weights = np.exp(shape[:, None] * logs)
        excess = (weights * finite).sum(axis=1) / weights.sum(axis=1) - 1 / shape - mean
        low, high = np.where(excess < 0, middle, low), np.where(excess < 0, high, middle)
    shape = np.exp((low + high) / 2)
    log_scale = np.log(np.exp(shape[:, None] * logs).sum(axis=1) / count) / shape
    return Tails(least, greatest, shape, log_scale)
