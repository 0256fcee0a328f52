"""Scores of one model's logits.

Each function maps logits, shape (n, C), to scores of shape (n,), higher = more unknown.

Softmax probabilities are never computed and subtracted from one: with z the logits less the greatest of them and r the
sum of exp(z) over the other classes, the greatest probability is 1 / (1 + r) and its complement r / (1 + r). The
complement has full relative precision down to 1e-308, while float32 probabilities are all equal above 1 - 6e-8, so
that rows lose their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq

from unknown_detection.evaluation.detectors.base import Method, Scores
from unknown_detection.evaluation.detectors.fitting import require_labels, require_range
from unknown_detection.evaluation.detectors.rows import LOGITS, Doubles, RowScore, dots, pieces
from unknown_detection.evaluation.models.features import Features, Head

# Bounds of the temperature search. Published temperatures are between 0.5 and 5 (Guo et al. 2017 and later); a bound
# is reached only if there is no optimum: all fitted rows right (towards 0), or worse than chance.
_COLDEST, _HOTTEST = 0.05, 100.0


def others(logits: Doubles) -> tuple[Doubles, Doubles]:
    """Return the odds of each class to the greatest, with 0 in the greatest's place, (n, C), and their sums, (n,)."""
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    odds[np.arange(len(odds)), logits.argmax(axis=1)] = 0.0
    return odds, odds.sum(axis=1)


def msp(logits: Doubles, temperature: float = 1.0) -> Scores:
    """One minus the maximum softmax probability (MSP; MCP, maximum class probability).

    Formula: 1 - max_c softmax(l / T)_c, in [0, 1 - 1/C], with the temperature T > 0.
    Source: Hendrycks and Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural
    Networks, ICLR 2017, section 2.
    """
    _, rest = others(logits / temperature)
    return rest / (1 + rest)


def max_logit(logits: Doubles) -> Scores:
    """Negative greatest logit (maximum logit value, MLV).

    Formula: -max_c l_c, in the units of the logits.
    Source: Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, ICML 2022; Vaze et al.,
    Open-Set Recognition: A Good Closed-Set Classifier Is All You Need, ICLR 2022.
    """
    scores: Scores = -logits.max(axis=1)
    return scores


def energy(logits: Doubles, temperature: float = 1.0) -> Scores:
    """Free energy (EBO).

    Formula: -T log sum_c exp(l_c / T), in the units of the logits, with the temperature T > 0.
    Source: Liu et al., Energy-based Out-of-distribution Detection, NeurIPS 2020, equation 4.
    """
    _, rest = others(logits / temperature)
    scores: Scores = -(logits.max(axis=1) + temperature * np.log1p(rest))
    return scores


def entropy(logits: Doubles) -> Scores:
    """Entropy of the softmax probabilities.

    Formula: -sum_c p_c log p_c, in nats, in [0, log C]; as log(1 + r) - sum_c p_c z_c, a sum without negative terms.
    Source: Shannon; as a detector in the comparison of Abdelzad et al., The Effect of Optimization Methods on the
    Robustness of Out-of-Distribution Detection Approaches, 2020, section 4.4.
    """
    odds, rest = others(logits)
    below = logits.max(axis=1, keepdims=True) - logits
    return np.log1p(rest) + dots(odds, below) / (1 + rest)


def margin(logits: Doubles) -> Scores:
    """One minus the margin between the two greatest softmax probabilities, of at least two classes.

    Formula: 1 - (p_1 - p_2), in [0, 1].
    Source: as `entropy`.
    """
    odds, rest = others(logits)
    scores: Scores = (rest + odds.max(axis=1)) / (1 + rest)
    return scores


def doctor(logits: Doubles) -> Scores:
    """DOCTOR's D_alpha in the totally black box setting (no temperature, no perturbation).

    Formula: (1 - g) / g with g = sum_c p_c^2, in [0, C - 1]: the odds that a class drawn from the softmax is wrong
    when the truth is drawn from it too. As (2 r + r^2 - s) / (1 + s) with s the sum of the other classes' squared
    odds.
    Source: Granese et al., DOCTOR: A Simple Method for Detecting Misclassification Errors, NeurIPS 2021, section 3
    (D_alpha); the setting as in BROAD, section 3.
    """
    odds, rest = others(logits)
    squares = dots(odds, odds)
    return (2 * rest + (rest * rest - squares)) / (1 + squares)


def logit_norm(logits: Doubles) -> Scores:
    """Negative norm of the logits.

    Formula: -||l||_2, in the units of the logits.
    Source: BROAD (Guille-Escuret et al., Expecting the Unexpected, 2023), section 3, "logit norm".
    """
    return -np.sqrt(dots(logits, logits))


@dataclass(frozen=True)
class LogitScore:
    """A detector that is a function of a row's logits, of any number.

    Attributes:
        function: maps float64 logits (n, C) to n scores.
        temperature: divisor of the logits, for the record; None if there is none.
    """

    function: Callable[[Doubles], Scores]
    temperature: float | None = None

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        return RowScore(self.function, classes=features.logits.shape[1]).score(features)


def fit_temperature(features: Features) -> float:
    """Fit the temperature that minimizes the negative log-likelihood of labelled in-distribution rows.

    The mean of log sum_c exp(b l_c) - b l_y is convex in b = 1 / T, so its derivative, the mean of E_softmax(b l)[l] -
    l_y, changes sign at most once; the root is bracketed in log T. Without a root between 0.05 and 100, a bound is
    returned: the lower one if, for example, all rows are classified correctly.

    Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017, section 4.2, equation 9; on rows outside
    the training set.

    Raises:
        EvaluationError: there are no rows or some have no label.
    """
    require_labels(features, "temperature")

    def slope(log_temperature: float) -> float:
        total = 0.0
        for rows, logits in pieces(LOGITS, features.logits, features.ids):
            # Differences to the label's logit are summed, because sums of large numbers would cancel.
            excess = logits - np.take_along_axis(logits, features.labels[rows, None], axis=1)
            scaled = excess / np.exp(log_temperature)
            weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
            total += float((dots(weights, excess) / weights.sum(axis=1)).sum())
        return total / len(features)

    cold, hot = float(np.log(_COLDEST)), float(np.log(_HOTTEST))
    if slope(cold) <= 0:
        return _COLDEST
    if slope(hot) >= 0:
        return _HOTTEST
    return float(np.exp(brentq(slope, cold, hot, xtol=1e-13)))


def make_temperature(features: Features, head: Head, temperature: float | None = None) -> LogitScore:
    """Maximum softmax probability after temperature scaling.

    Formula: 1 - max_c softmax(l / T)_c, with T > 0 from `fit_temperature` unless it is given.
    Source: Guo et al., as `fit_temperature`; with T = 1000 given, ODIN without input preprocessing (Liang et al., ICLR
    2018), which FACETS calls TS.
    """
    chosen = fit_temperature(features) if temperature is None else temperature
    require_range(chosen > 0, "The temperature must be above 0", chosen)
    return LogitScore(partial(msp, temperature=chosen), chosen)


def _unfitted(function: Callable[[Doubles], Scores]) -> Callable[..., LogitScore]:
    def make(features: Features | None, head: Head | None) -> LogitScore:
        return LogitScore(function)

    make.__doc__ = function.__doc__
    return make


def make_energy(features: Features | None, head: Head | None, temperature: float = 1.0) -> LogitScore:
    """Build the `energy` score of the logits at a temperature above 0."""
    require_range(temperature > 0, "The temperature of energy must be above 0", temperature)
    return LogitScore(partial(energy, temperature=temperature), temperature)


_POSITIVE = {"temperature": "above 0"}
_GUO = "Guo et al. 2017, equation 9"
MSP = Method("msp", "MSP", "Hendrycks and Gimpel 2017, section 2", _unfitted(msp))
TEMPERATURE = Method("temperature", "Temperature scaling", _GUO, make_temperature, fit="validation", ranges=_POSITIVE)
MAX_LOGIT = Method("max_logit", "Max logits", "Hendrycks et al. 2022; Vaze et al. 2022", _unfitted(max_logit))
ENERGY = Method("energy", "EBO", "Liu et al. 2020, equation 4", make_energy, ranges=_POSITIVE)
ENTROPY = Method("entropy", "Entropy", "Abdelzad et al. 2020, section 4.4", _unfitted(entropy))
MARGIN = Method("margin", "Margin", "Abdelzad et al. 2020, section 4.4", _unfitted(margin))
DOCTOR = Method("doctor", "D_alpha", "Granese et al. 2021, section 3", _unfitted(doctor))
LOGIT_NORM = Method("logit_norm", "Logits norm", "Guille-Escuret et al. 2023, section 3", _unfitted(logit_norm))
