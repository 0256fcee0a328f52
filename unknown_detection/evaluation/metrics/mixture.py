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
import numpy.typing as npt

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.metrics.ranking import unmasked

EPSILON = 1e-6
"""Epsilon of equation 4, in squared percent. The paper does not state it. Its tables come out with its root, 0.001
percent, added to each standard deviation and to the sum of the weights, whose means lie up to 0.08 % lower than those
of its equations, which hold here."""


@dataclass(frozen=True)
class Mixture:
    """Mean and variance of a metric over all components (equations 6 and 7), in the metric's unit and its square."""

    mean: float
    variance: float

    @property
    def coefficient_of_variation(self) -> float:
        """Standard deviation divided by mean (equation 8).

        Raises:
            EvaluationError: the mean is 0.
        """
        if self.mean == 0:
            raise EvaluationError("A mean of 0 has no coefficient of variation; report the variance instead.")
        return math.sqrt(self.variance) / self.mean

    def robustness(self, better: Literal["higher", "lower"]) -> float:
        """The paper's robustness score; lower is more robust.

        Args:
            better: whether higher or lower values of the metric are better. For `higher`, the score is the coefficient
                of variation; for `lower`, the product of standard deviation and mean, so that a low mean improves it
                (table 5).

        Raises:
            EvaluationError: the mean is 0 and higher is better.
        """
        return math.sqrt(self.variance) * self.mean if better == "lower" else self.coefficient_of_variation


def moments(values: Sequence[float] | npt.NDArray[np.float64]) -> tuple[float, float]:
    """Mean and population variance of a metric over models with different seeds (equations 2 and 3).

    Raises:
        EvaluationError: there are no values, or one is not finite.
    """
    found = _finite("values", values)
    return float(found.mean()), float(found.var())


def mixture(
    means: Sequence[float] | npt.NDArray[np.float64],
    variances: Sequence[float] | npt.NDArray[np.float64],
    *,
    epsilon: float = EPSILON,
) -> Mixture:
    """Mix components, weighted by the inverse of their standard deviation (equations 4 to 7).

    Args:
        means: mean of each component, in percent for the paper's epsilon.
        variances: variance of each component.
        epsilon: keeps the weights of components without variance finite, in the unit of the variances.

    Raises:
        EvaluationError: there are no components, means and variances differ in number, a value is not finite, or a
            variance or epsilon is negative, or both are 0.
    """
    mean, variance = _finite("means", means), _finite("variances", variances)
    if len(mean) != len(variance):
        raise EvaluationError(
            f"There are {len(mean)} means but {len(variance)} variances; give one of each per component."
        )
    if epsilon < 0 or variance.min() < 0 or variance.min() + epsilon == 0:
        raise EvaluationError(
            f"Variances must be at least 0 and epsilon above 0, found {variance.min()} and {epsilon}; give others."
        )
    confidence = 1 / np.sqrt(variance + epsilon)
    weights = confidence / confidence.sum()
    mixed = float((weights * mean).sum())
    return Mixture(mixed, float((weights * (variance + (mixed - mean) ** 2)).sum()))


def _finite(what: str, values: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found = unmasked(what, values).astype(np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise EvaluationError(
            f"The {what} must be finite numbers in one dimension, found {values!r}; give one per model."
        )
    return found
