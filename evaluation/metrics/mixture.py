"""How robust a detector is to a choice made in training: a mixture over the choices, and its spread.

Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution Detection
Approaches (2020), section 3. A metric is measured on several models for each optimizer, which differ in their seeds.
The optimizers are the components of a mixture, weighted by how steady each is; a detector is robust if the mixture is
good and narrow. The same is done over sets of unknowns in place of optimizers to find a robust optimizer.

The paper's numbers are percentages, and so is what its `EPSILON` is made for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from evaluation.errors import EvaluationError

EPSILON = 1e-6
"""Of equation 4, in squared percent. The paper does not print it; its tables come out with 0.001 percent beside
standard deviations, which is this beside variances."""


@dataclass(frozen=True)
class Mixture:
    """Mean and variance of a metric over all components (equations 6 and 7).

    Attributes:
        mean: in the metric's unit.
        variance: in its square.
    """

    mean: float
    variance: float

    @property
    def coefficient_of_variation(self) -> float:
        """Standard deviation over mean (equation 8).

        Raises:
            EvaluationError: the mean is 0.
        """
        if self.mean == 0:
            raise EvaluationError(
                "expected a mean other than 0 for a coefficient of variation, found 0; give the variance."
            )
        return math.sqrt(self.variance) / self.mean

    def robustness(self, better: Literal["higher", "lower"]) -> float:
        """The paper's score, lower = more robust.

        Args:
            better: which values of the metric are good. For `higher` it is the coefficient of variation; for `lower`
                the product of standard deviation and mean, so that a low mean counts for the detector (table 5).

        Raises:
            EvaluationError: the mean is 0 and higher is better.
        """
        return math.sqrt(self.variance) * self.mean if better == "lower" else self.coefficient_of_variation


def moments(values: Sequence[float] | npt.NDArray[np.float64]) -> tuple[float, float]:
    """Mean and population variance of a metric over models that differ in their seed (equations 2 and 3).

    Args:
        values: one number a model.

    Raises:
        EvaluationError: there are none, or one is not finite.
    """
    found = _finite("values", values)
    return float(found.mean()), float(found.var())


def mixture(
    means: Sequence[float] | npt.NDArray[np.float64],
    variances: Sequence[float] | npt.NDArray[np.float64],
    *,
    epsilon: float = EPSILON,
    as_in_tables: bool = False,
) -> Mixture:
    """Mix components, each weighted by one over its standard deviation (equations 4 to 7).

    Args:
        means: of each component, percentages for the paper's epsilon.
        variances: of each component.
        epsilon: what keeps the weight of a component without variance finite, in the unit of the variances.
        as_in_tables: compute as the paper's tables do instead of its equations: the square root of epsilon is added to
            each standard deviation, in place of epsilon to the variance, and once more to the sum that weights are
            divided by. They then add up to a little less than 1, and means come out too low by as much, in its tables
            by up to 0.08 %.

    Returns:
        Mean and variance over all components.

    Raises:
        EvaluationError: there are no components, numbers differ in count or are not finite, or a variance or epsilon
            is negative, or both are 0.
    """
    mean, variance = _finite("means", means), _finite("variances", variances)
    if len(mean) != len(variance):
        raise EvaluationError(
            f"expected a variance for each of {len(mean)} means, found {len(variance)}; give as many."
        )
    if epsilon < 0 or variance.min() < 0 or variance.min() + epsilon == 0:
        raise EvaluationError(
            f"expected variances of 0 and more and an epsilon above 0, found {variance.min()} and {epsilon}; weights "
            "are one over their root."
        )
    step = math.sqrt(epsilon)
    confidence = 1 / (np.sqrt(variance) + step) if as_in_tables else 1 / np.sqrt(variance + epsilon)
    weights = confidence / (confidence.sum() + (step if as_in_tables else 0.0))
    mixed = float((weights * mean).sum())
    return Mixture(mixed, float((weights * (variance + (mixed - mean) ** 2)).sum()))


def _finite(what: str, values: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise EvaluationError(f"expected a row of finite {what}, found {values!r}; give one number for each.")
    return found
