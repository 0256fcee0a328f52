"""Scores of several members: the models of a deep ensemble, or forward passes with dropout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax, logsumexp

from unknown_detection.evaluation.detectors.base import RowDetector
from unknown_detection.evaluation.detectors.logits import msp
from unknown_detection.evaluation.detectors.rows import Doubles, Scores, chunks, require_finite, require_width
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Floats


def log_mean_softmax(members: Doubles) -> Doubles:
    """Logarithm of the members' mean softmax probabilities.

    Formula: log (1/M sum_m softmax(l_m)). These are logits again: their softmax is the mean.
    Source: Lakshminarayanan et al., Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles,
    NeurIPS 2017, section 2.4; for passes with dropout, Gal and Ghahramani, Dropout as a Bayesian Approximation, ICML
    2016.

    The members' logits are of shape (M, n, C), the result (n, C).
    """
    mean: Doubles = logsumexp(log_softmax(members, axis=2), axis=0) - np.log(len(members))
    return mean


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
    scores: Scores = np.einsum("mnc,mnc->n", np.exp(log_p), log_p - log_mean) / len(members)
    return scores


def average(members: Sequence[Features]) -> Features:
    """Combine several models' features of the same rows to score them like one model's.

    Their logits' softmax is the mean of the members' (`log_mean_softmax`); there are no penultimate features (width 0)
    and no blocks, which models do not share.
    """
    if len(members) < 2:
        raise EvaluationError(
            f"An ensemble needs at least 2 models, found {len(members)}; extract features with more."
        )
    first = members[0]
    for number, member in enumerate(members, start=1):
        same_rows = np.array_equal(member.ids, first.ids) and np.array_equal(member.labels, first.labels)
        if not same_rows or member.logits.shape != first.logits.shape:
            raise EvaluationError(
                f"Model {number} of the ensemble has other rows, labels or classes than the first (logits of shape "
                f"{member.logits.shape} and {first.logits.shape}). Extract all models from one release, config and "
                "split."
            )
        require_finite("logits", member.logits, member.ids)
    logits = tuple(member.logits for member in members)
    mean = np.empty(first.logits.shape)
    for rows in chunks(len(first), 3 * len(members) * first.logits.shape[1]):
        mean[rows] = log_mean_softmax(np.stack([member[rows] for member in logits]).astype(np.float64))
    return Features(first.ids, first.labels, mean, np.empty((len(first), 0)), (), members=logits)


class MemberDetector(RowDetector):
    """A detector that is a function of the logits (M, n, C) of at least two members with the same classes."""

    reads = "members"

    def _inputs(self, features: Features) -> dict[str, Floats]:
        if len(features.members) < 2:
            raise EvaluationError(
                f"At least 2 members with logits are needed, found {len(features.members)}; extract with several "
                "models or run passes with dropout."
            )
        for member in features.members:
            require_width("members' logits", member, features.members[0].shape[1])
        return {f"logits of member {number}": member for number, member in enumerate(features.members, start=1)}


class MutualInformation(MemberDetector):
    """Mutual information between the prediction and the member (MI, BALD); formula: `mutual_information`."""

    name, title, source = "mutual_information", "MI", "Gal et al. 2017, section 4"

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
