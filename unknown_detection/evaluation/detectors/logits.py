"""Detectors that read logits: of one model, or of several members (models of an ensemble, passes with dropout).

In the formulas l are a row's logits of C classes and p their softmax.

Softmax probabilities are never computed and subtracted from one: with z the logits less the greatest of them and r the
sum of exp(z) over the other classes, the greatest probability is 1 / (1 + r) and its complement r / (1 + r). The
complement has full relative precision down to 1e-308, while float32 probabilities are all equal above 1 - 6e-8, so
that rows lose their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp, softmax

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import RowDetector, Scores, Together, setting
from unknown_detection.evaluation.models.features import Doubles, Features, Floats

# Bounds of the temperature search. Published temperatures are between 0.5 and 5 (Guo et al. 2017 and later); a bound
# is reached only if there is no optimum: all fitted rows right (towards 0), or worse than chance.
_COLDEST, _HOTTEST = 0.05, 100.0


_LARGE = 300.0
"""Logit up to which the square of its exponential does not overflow, however many are added."""


def exponentials(logits: Doubles) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Return exp l_c of each class but the greatest, which gets 0, (n, C), and of rows, (n,): exp max l, r, and max l.

    Of a row whose greatest logit is below 0 or so large that sums might overflow, the first two are of l - max l: of
    others a subtraction would take a quarter of the time. The place of the greatest is found first: NumPy finds it in
    half the time of the value.
    """
    rows, place = np.arange(len(logits)), logits.argmax(axis=1)
    greatest = logits[rows, place]
    far = ~((greatest >= 0) & (greatest <= _LARGE))
    if far.any():
        logits = logits.copy()
        logits[far] -= greatest[far, None]
    others = np.exp(logits)
    top = others[rows, place]
    others[rows, place] = 0.0
    return others, top, np.einsum("nc->n", others) / top, greatest


def msp(logits: Doubles, temperature: float = 1.0) -> Scores:
    """One minus the greatest softmax probability of logits divided by a temperature above 0, (n, C) to (n,)."""
    _, _, total, _ = exponentials(logits if temperature == 1 else logits / temperature)
    return total / (1 + total)


def energy(logits: Doubles, temperature: float = 1.0) -> Scores:
    """Free energy at a temperature T above 0, -T log sum_c exp(l_c / T), of logits (n, C), shape (n,)."""
    _, _, total, greatest = exponentials(logits if temperature == 1 else logits / temperature)
    return -temperature * (greatest + np.log1p(total))


def log_mean_softmax(members: Doubles) -> Doubles:
    """Logarithm of the members' mean softmax probabilities.

    Formula: log (1/M sum_m softmax(l_m)). These are logits again: their softmax is the mean.
    Source: Lakshminarayanan et al., Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles,
    NeurIPS 2017, section 2.4; for passes with dropout, Gal and Ghahramani, Dropout as a Bayesian Approximation, ICML
    2016.

    The members' logits are of shape (M, n, C), the result (n, C).
    """
    return logsumexp(log_softmax(members, axis=2), axis=0) - np.log(len(members))


def mutual_information(members: Doubles) -> Scores:
    """Mutual information between the prediction and the member (MI, BALD).

    Formula: H(mean_m p_m) - mean_m H(p_m), in nats, in [0, log min(M, C)]; computed as the equal mean over members of
    the Kullback-Leibler divergence of p_m from the mean.
    Source: Gal et al., Deep Bayesian Active Learning with Image Data, ICML 2017, section 4; as a detector in Abdelzad
    et al., The Effect of Optimization Methods on the Robustness of Out-of-Distribution Detection Approaches, 2020.
    The members' logits are of shape (M, n, C).
    """
    log_p = log_softmax(members, axis=2)
    log_mean = logsumexp(log_p, axis=0) - np.log(len(members))
    return np.einsum("mnc,mnc->n", np.exp(log_p), log_p - log_mean) / len(members)


def average(members: Sequence[Features]) -> Features:
    """Combine several models' features of the same rows to score them like one model's.

    Their logits' softmax is the mean of the members' (`log_mean_softmax`); there are no penultimate features (width 0)
    and no blocks, which models do not share.
    """
    first = members[0]
    logits = tuple(member.logits for member in members)
    mean = np.empty(first.logits.shape)
    for rows in arrays.chunks(len(first), len(members) * first.logits.shape[1]):
        mean[rows] = log_mean_softmax(np.stack([member[rows] for member in logits]).astype(np.float64))
    return Features(first.ids, first.labels, mean, np.empty((len(first), 0)), (), members=logits)


class MSP(RowDetector):
    """One minus the maximum softmax probability (MSP; MCP, maximum class probability).

    Formula: 1 - max_c p_c, in [0, 1 - 1/C].
    Source: Hendrycks and Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural
    Networks, ICLR 2017, section 2.
    """

    name, title, source = "msp", "MSP", "Hendrycks and Gimpel 2017, section 2"
    compared = "pytorch-ood 0.4"
    _rows = staticmethod(msp)


class Temperature(RowDetector):
    """Maximum softmax probability after temperature scaling.

    Formula: 1 - max_c softmax(l / T)_c, with the T > 0 that minimizes the negative log-likelihood of rows outside the
    training set (`fit_temperature`), unless it is given.
    Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017, section 4.2, equation 9; with T = 1000
    given, ODIN without input preprocessing (Liang et al., ICLR 2018), which FACETS calls TS.
    """

    name, title, source = "temperature", "TempScale", "Guo et al. 2017, equation 9"
    compared = "pytorch-ood 0.4"
    fits_on = "validation"

    temperature: float | None = setting(None, allowed=ranges.POSITIVE)

    def _learn(self, features: Features) -> None:
        self.fitted = fit_temperature(features) if self.temperature is None else self.temperature

    def _rows(self, logits: Doubles) -> Scores:
        return msp(logits, self.fitted)


class MaxLogit(RowDetector):
    """Negative greatest logit (maximum logit value, MLV; "max logits" in BROAD).

    Formula: -max_c l_c, in the units of the logits.
    Source: Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, ICML 2022; Vaze et al.,
    Open-Set Recognition: A Good Closed-Set Classifier Is All You Need, ICLR 2022.
    """

    name, title, source = "max_logit", "MaxLogit", "Hendrycks et al. 2022; Vaze et al. 2022"
    compared = "pytorch-ood 0.4"

    def _rows(self, logits: Doubles) -> Scores:
        return -logits[np.arange(len(logits)), logits.argmax(axis=1)]  # faster than `max`, as in `exponentials`


class Energy(RowDetector):
    """Free energy (EBO).

    Formula: -T log sum_c exp(l_c / T), in the units of the logits, with the temperature T > 0.
    Source: Liu et al., Energy-based Out-of-distribution Detection, NeurIPS 2020, equation 4.
    """

    name, title, source = "energy", "EBO", "Liu et al. 2020, equation 4"
    compared = "pytorch-ood 0.4"

    temperature: float = setting(1.0, allowed=ranges.POSITIVE)

    def _rows(self, logits: Doubles) -> Scores:
        return energy(logits, self.temperature)


class Entropy(RowDetector):
    """Entropy of the softmax probabilities.

    Formula: -sum_c p_c log p_c, in nats, in [0, log C]; as log(1 + r) - sum_c p_c z_c, a sum without negative terms.
    Source: Shannon; as a detector in the comparison of Abdelzad et al., The Effect of Optimization Methods on the
    Robustness of Out-of-Distribution Detection Approaches, 2020, section 4.4.
    """

    name, title, source = "entropy", "Entropy", "Abdelzad et al. 2020, section 4.4"
    compared = "pytorch-ood 0.4"

    def _rows(self, logits: Doubles) -> Scores:
        others, top, total, greatest = exponentials(logits)
        below = greatest[:, None] - logits
        return np.log1p(total) + arrays.dots(others, below) / (top * (1 + total))


class Margin(RowDetector):
    """One minus the margin between the two greatest softmax probabilities, of at least two classes.

    Formula: 1 - (p_1 - p_2), in [0, 1].
    Source: as `Entropy`.
    """

    name, title, source = "margin", "Margin", "Abdelzad et al. 2020, section 4.4"

    def _rows(self, logits: Doubles) -> Scores:
        others, top, total, _ = exponentials(logits)
        return (total + others.max(axis=1) / top) / (1 + total)


class Doctor(RowDetector):
    """DOCTOR's D_alpha in the totally black box setting (no temperature, no perturbation).

    Formula: (1 - g) / g with g = sum_c p_c^2, in [0, C - 1]: the odds that a class drawn from the softmax is wrong
    when the truth is drawn from it too. As (2 r + r^2 - s) / (1 + s) with s the sum of the other classes' squared
    odds.
    Source: Granese et al., DOCTOR: A Simple Method for Detecting Misclassification Errors, NeurIPS 2021, section 3
    (D_alpha); the setting as in BROAD, section 3.
    """

    name, title, source = "doctor", "DOCTOR", "Granese et al. 2021, section 3"

    def _rows(self, logits: Doubles) -> Scores:
        others, top, total, _ = exponentials(logits)
        squares = arrays.dots(others, others) / top**2
        return (2 * total + (total * total - squares)) / (1 + squares)


class LogitNorm(RowDetector):
    """Negative norm of the logits.

    Formula: -||l||_2, in the units of the logits.
    Source: BROAD (Guille-Escuret et al., Expecting the Unexpected, 2023), section 3, "logit norm".
    """

    name, title, source = "logit_norm", "Logit norm", "Guille-Escuret et al. 2023, section 3"

    def _rows(self, logits: Doubles) -> Scores:
        return -np.sqrt(arrays.dots(logits, logits))


class GEN(Together):
    """Generalized entropy of the greatest softmax probabilities (GEN).

    Formula: sum over the M greatest p_c of p_c^gamma (1 - p_c)^gamma, above 0; all p_c if there are at most M, which
    is `largest`.
    Source: Liu, Lochman and Zach, GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection, CVPR 2023,
    section 3; gamma = 0.1 and M = 100 are theirs for ImageNet. Both lists to search are OpenOOD v1.5's sweep.
    """

    name, title, source = "gen", "GEN", "Liu et al. 2023, section 3"
    compared = "pytorch-ood 0.4"

    gamma: float = setting(0.1, 0.01, 0.5, 1.0, 2.0, 5.0, 10.0, allowed=ranges.POSITIVE)
    largest: int = setting(100, 10, 50, 200, 500, 1000, allowed=ranges.at_least(1))

    def _rows_together(self, detectors: Sequence[GEN], logits: Doubles) -> Doubles:
        """Sort the probabilities once."""
        odds, top, total, _ = exponentials(logits)
        odds /= top[:, None]
        # p (1 - p) without a subtraction from one: of the greatest probability 1 / (1 + r), and of the others.
        greatest = total / (1 + total) ** 2
        products = odds * (1 + total[:, None] - odds) / (1 + total[:, None]) ** 2
        products[np.arange(len(products)), logits.argmax(axis=1)] = -1.0
        # Up to p = 1/2, that is for all but the greatest, p (1 - p) sorts as p does.
        descending = -np.sort(-products, axis=1)
        descending = np.concatenate([greatest[:, None], descending[:, :-1]], axis=1)
        scores = np.empty((len(logits), len(detectors)))
        for gamma in {detector.gamma for detector in detectors}:
            sums = np.cumsum(descending**gamma, axis=1)
            for column, detector in enumerate(detectors):
                if detector.gamma == gamma:
                    scores[:, column] = sums[:, min(int(detector.largest), logits.shape[1]) - 1]
        return scores


class KLMatching(RowDetector):
    """Smallest KL divergence of the softmax from a class's typical one (KL matching).

    Formula: min_k sum_c p_c log(p_c / d_kc), in nats, at least 0, with d_k the mean softmax of the fitted rows that
    are predicted to be of class k. Classes that are never predicted are left out, and where d_kc underflows, the
    smallest positive double is used (both ours).
    Source: Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, ICML 2022, section "KL
    matching"; fitted on validation rows, as there.
    """

    name, title, source = "kl_matching", "KL-Matching", "Hendrycks et al. 2022, KL matching"
    compared = "pytorch-ood 0.4"
    fits_on = "validation"

    def _learn(self, features: Features) -> None:
        classes = features.logits.shape[1]
        means = arrays.class_means(features.logits, arrays.predicted(features), classes, partial(softmax, axis=1))
        self.typical = np.log(np.maximum(means[~np.isnan(means[:, 0])], np.finfo(float).tiny))

    def _rows(self, logits: Doubles) -> Scores:
        logarithms = log_softmax(logits, axis=1)
        probabilities = np.exp(logarithms)
        # A matrix product finds the class; the divergence from it is then computed without cancellation.
        nearest = self.typical[(probabilities @ self.typical.T).argmax(axis=1)]
        return arrays.dots(probabilities, logarithms - nearest)


class MemberDetector(RowDetector):
    """A detector that is a function of the logits (M, n, C) of at least two members with the same classes."""

    reads = "members"

    def _inputs(self, features: Features) -> dict[str, Floats]:
        return {f"logits of member {number}": member for number, member in enumerate(features.members, start=1)}


class MutualInformation(MemberDetector):
    """Mutual information between the prediction and the member (MI, BALD); formula: `mutual_information`."""

    name, title, source = "mutual_information", "Ensemble (MI)", "Gal et al. 2017, section 4"

    def _rows(self, *logits: Doubles) -> Scores:
        return mutual_information(np.stack(logits))


class DeepEnsemble(MemberDetector):
    """MSP of the mean softmax of the members.

    Formula: 1 - max_c mean_m softmax(l_m)_c.
    Source: as `log_mean_softmax`; MSP rather than another score as in the unified unknown detection paper, section 4.
    """

    name, title, source = "deep_ensemble", "Deep Ensemble", "Lakshminarayanan et al. 2017, section 2.4"

    def _rows(self, *logits: Doubles) -> Scores:
        return msp(log_mean_softmax(np.stack(logits)))


def fit_temperature(features: Features) -> float:
    """Fit the temperature that minimizes the negative log-likelihood of labelled in-distribution rows.

    The mean of log sum_c exp(b l_c) - b l_y is convex in b = 1 / T, so its derivative, the mean of E_softmax(b l)[l] -
    l_y, changes sign at most once; the root is bracketed in log T. Without a root between 0.05 and 100, a bound is
    returned: the lower one if, for example, all rows are classified correctly.
    """
    arrays.require_labels(features, "temperature")

    def slope(log_temperature: float) -> float:
        total = 0.0
        for rows, logits in arrays.pieces(features.logits):
            # Differences to the label's logit are summed, because sums of large numbers would cancel.
            excess = logits - np.take_along_axis(logits, features.labels[rows, None], axis=1)
            scaled = excess / np.exp(log_temperature)
            weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
            total += float((arrays.dots(weights, excess) / weights.sum(axis=1)).sum())
        return total / len(features)

    cold, hot = float(np.log(_COLDEST)), float(np.log(_HOTTEST))
    if slope(cold) <= 0:
        return _COLDEST
    if slope(hot) >= 0:
        return _HOTTEST
    return float(np.exp(brentq(slope, cold, hot, xtol=1e-13)))
