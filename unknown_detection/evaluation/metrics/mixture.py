"""Robustness of a detector to a training choice: mean and spread of a mixture over the choices.

Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution Detection
Approaches (2020), section 3. A metric is measured on several models per optimizer, trained with different seeds. The
optimizers are the components of a mixture, weighted by their stability; a detector is robust if the mixture has a good
mean and a small variance. The same over OoD sets in place of optimizers shows which optimizer is robust.

The paper computes in percent, and `EPSILON` assumes percentages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unknown_detection.evaluation.errors import EvaluationError

EPSILON = 1e-6
"""Epsilon of equation 4, in squared percent. The paper does not state it. Its tables come out with its root, 0.001
percent, added to each standard deviation and to the sum of the weights, whose means lie up to 0.08 % lower than those
of its equations, which hold here."""


@dataclass(frozen=True)
class Mixture:
    """Mean and variance of a metric over all components (equations 6 and 7), in the metric's unit and its square."""

    mean: float
    variance: float

    def robustness(self, better: Literal["higher", "lower"]) -> float:
        """The paper's robustness score; lower is more robust.

        For a metric of which higher values are better, the coefficient of variation, deviation over mean (equation 8);
        for `lower`, the product of deviation and mean, so that a low mean improves it (table 5).
        """
        deviation = math.sqrt(self.variance)
        if better == "lower":
            return deviation * self.mean
        if self.mean == 0:
            raise EvaluationError("A mean of 0 has no coefficient of variation; report the variance instead.")
        return deviation / self.mean


def moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and population variance of a metric over models with different seeds (equations 2 and 3)."""
    return float(np.mean(values)), float(np.var(values))


def mixture(means: Sequence[float], variances: Sequence[float]) -> Mixture:
    """Mix components, weighted by the inverse of their standard deviation (equations 4 to 7), all in percent."""
    mean, variance = np.array(means, dtype=float), np.array(variances, dtype=float)
    confidence = 1 / np.sqrt(variance + EPSILON)
    weights = confidence / confidence.sum()
    mixed = float((weights * mean).sum())
    return Mixture(mixed, float((weights * (variance + (mixed - mean) ** 2)).sum()))
