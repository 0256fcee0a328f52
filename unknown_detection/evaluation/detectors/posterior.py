"""Scores of all softmax probabilities of a row: generalized entropy (GEN), and KL matching with typical softmaxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import log_softmax, softmax

from unknown_detection.evaluation.detectors.base import Method, Scores
from unknown_detection.evaluation.detectors.fitting import class_sums, predicted, require_labels, require_range
from unknown_detection.evaluation.detectors.logits import others
from unknown_detection.evaluation.detectors.rows import LOGITS, Doubles, Plan, RowScore, Together, dots
from unknown_detection.evaluation.models.features import Features, Head


@dataclass(frozen=True)
class GeneralizedEntropy(Together):
    """The GEN detector.

    Attributes:
        gamma: exponent, above 0.
        largest: number M of probabilities that count, the greatest ones.
    """

    gamma: float
    largest: int

    def plan(self, detectors: Sequence[GeneralizedEntropy], features: Features) -> Plan:
        """Sort the probabilities once."""
        score = partial(_generalized_entropies, detectors=detectors)
        return score, {LOGITS: features.logits}, 6 * features.logits.shape[1] + len(detectors)


def _generalized_entropies(logits: Doubles, detectors: Sequence[GeneralizedEntropy]) -> Doubles:
    """Return the scores of rows, shape (m, number of detectors)."""
    odds, rest = others(logits)
    # p (1 - p) without a subtraction from one: of the greatest probability 1 / (1 + r), and of the others.
    greatest = rest / (1 + rest) ** 2
    products = odds * (1 + rest[:, None] - odds) / (1 + rest[:, None]) ** 2
    products[np.arange(len(products)), logits.argmax(axis=1)] = -1.0
    # Up to p = 1/2, that is for all but the greatest, p (1 - p) sorts as p does.
    descending = -np.sort(-products, axis=1)
    descending = np.concatenate([greatest[:, None], descending[:, :-1]], axis=1)
    scores = np.empty((len(logits), len(detectors)))
    for gamma in {detector.gamma for detector in detectors}:
        sums = np.cumsum(descending**gamma, axis=1)
        for column, detector in enumerate(detectors):
            if detector.gamma == gamma:
                scores[:, column] = sums[:, min(detector.largest, logits.shape[1]) - 1]
    return scores


def make_gen(
    features: Features | None, head: Head | None, gamma: float = 0.1, largest: float = 100
) -> GeneralizedEntropy:
    """Generalized entropy of the greatest softmax probabilities (GEN).

    Formula: sum over the M greatest p_c of p_c^gamma (1 - p_c)^gamma, above 0; all p_c if there are at most M.
    Source: Liu, Lochman and Zach, GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection, CVPR 2023,
    section 3; gamma = 0.1 and M = 100 are theirs for ImageNet.
    """
    require_range(gamma > 0 and largest >= 1, "gen needs gamma above 0 and largest of at least 1", gamma, largest)
    return GeneralizedEntropy(gamma, int(largest))


def make_kl_matching(features: Features, head: Head | None) -> RowScore:
    """Smallest KL divergence of the softmax from a class's typical one (KL matching).

    Formula: min_k sum_c p_c log(p_c / d_kc), in nats, at least 0, with d_k the mean softmax of the fitted rows that
    are predicted to be of class k. Classes that are never predicted are left out, and where d_kc underflows, the
    smallest positive double is used (both ours).
    Source: Hendrycks et al., Scaling Out-of-Distribution Detection for Real-World Settings, ICML 2022, section "KL
    matching"; fitted on validation rows, as there.
    """
    require_labels(features, "kl_matching")
    found, classes = predicted(features), features.logits.shape[1]
    sums = class_sums(LOGITS, features.logits, found, classes, features.ids, lambda logits: softmax(logits, axis=1))
    counts = np.bincount(found, minlength=classes)
    means = sums[counts > 0] / counts[counts > 0, None]
    typical = np.log(np.maximum(means, np.finfo(float).tiny))

    def score(logits: Doubles) -> Scores:
        logarithms = log_softmax(logits, axis=1)
        probabilities = np.exp(logarithms)
        # A matrix product finds the class; the divergence from it is then computed without cancellation.
        nearest = typical[(probabilities @ typical.T).argmax(axis=1)]
        return dots(probabilities, logarithms - nearest)

    return RowScore(score, classes=classes)


# Both lists are OpenOOD v1.5's sweep.
GEN = Method(
    "gen",
    "GEN",
    "Liu et al. 2023, section 3",
    make_gen,
    grid={"gamma": (0.1, 0.01, 0.5, 1.0, 2.0, 5.0, 10.0), "largest": (100, 10, 50, 200, 500, 1000)},
    score_together=GeneralizedEntropy.score_together,
)
KL_MATCHING = Method(
    "kl_matching", "KL matching", "Hendrycks et al. 2022, KL matching", make_kl_matching, fit="validation"
)
