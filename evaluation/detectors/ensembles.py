"""Ens-V, Ens-R and Ens-F: a Gaussian mixture of other detectors' scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.detectors.base import Method, Scores
from evaluation.detectors.fitting import labels_if_correct, require_labels
from evaluation.detectors.rows import Doubles, by_rows
from evaluation.errors import EvaluationError
from evaluation.models.features import Features, Head

# BROAD, section 3: for vision transformers, for ResNets, and the fast one.
VIT_PARTS = ("gradnorm", "odin", "mahalanobis_all", "mahalanobis", "cadet", "dice", "msp", "max_logit")
RESNET_PARTS = ("gradnorm", "odin", "mahalanobis_all", "mahalanobis", "cadet", "react", "vim", "doctor")
FAST_PARTS = ("msp", "max_logit", "mahalanobis_all", "mahalanobis", "energy")


@dataclass(frozen=True)
class ScoreMixture:
    """A Gaussian mixture of scores, fitted.

    Attributes:
        parts: names of the detectors whose scores are read.
        mean: of the fitted scores, shape (k,).
        scale: their standard deviation, shape (k,).
        mixture: scikit-learn's `GaussianMixture` of the standardized scores.
    """

    parts: tuple[str, ...]
    mean: Doubles
    scale: Doubles
    mixture: Any

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        return by_rows(
            lambda scores: -self.mixture.score_samples((scores - self.mean) / self.scale),
            {"scores of " + ", ".join(self.parts): _stacked(features, self.parts)},
            features.ids,
            doubles_each=4 * len(self.parts) + 3 * self.mixture.n_components,
        )


def _stacked(features: Features, parts: tuple[str, ...]) -> Doubles:
    missing = [part for part in parts if part not in features.scores]
    if missing:
        raise EvaluationError(
            f"expected scores of {', '.join(parts)}, found none of {', '.join(missing)}; score with these too."
        )
    return np.stack([features.scores[part] for part in parts], axis=1)


def _fit(detector: str, parts: tuple[str, ...], features: Features, components: int, seed: int) -> ScoreMixture:
    require_labels(features, detector)
    components = int(components)
    if components < 1:
        raise EvaluationError(f"expected components of {detector} of at least 1, found {components}.")
    right = labels_if_correct(features) >= 0
    scores = _stacked(features, parts)[right]
    # A full covariance of k scores needs k + 1 rows to be one.
    least = components * (len(parts) + 1)
    if len(scores) < least:
        raise EvaluationError(
            f"expected at least {least:,} correctly classified rows to fit {components} components of {len(parts)} "
            f"scores for {detector}, found {len(scores):,} of {len(features):,}; fit on more rows or give fewer "
            f"components."
        )
    mean, scale = scores.mean(axis=0), scores.std(axis=0)
    constant = [part for part, deviation in zip(parts, scale, strict=True) if not deviation > 0]
    if constant:
        raise EvaluationError(
            f"expected finite scores that differ to fit {detector} on, found others of {', '.join(constant)}; leave "
            f"{detector} out."
        )
    from sklearn.mixture import GaussianMixture  # an extra; its import takes a second
    from threadpoolctl import threadpool_limits

    mixture = GaussianMixture(components, covariance_type="full", random_state=seed)
    # Sums of several threads round in another order on another machine, and on a busy one they take minutes.
    with threadpool_limits(1):
        mixture.fit((scores - mean) / scale)
    return ScoreMixture(parts, mean, scale, mixture)


def _make(detector: str, parts: tuple[str, ...]) -> Callable[..., ScoreMixture]:
    def make(features: Features, head: Head | None, components: int = 10, seed: int = 0) -> ScoreMixture:
        """Negated log density of a Gaussian mixture of scores.

        Formula: -log sum_i w_i N(s; m_i, S_i) with s the parts' scores, standardized by the mean and deviation of the
        fitted rows, and full covariances fitted by expectation maximization.
        Source: BROAD (Guille-Escuret et al., Expecting the Unexpected, 2023), section 3 and appendix C: 10 components,
        fitted on the held-out rows that are classified right. The paper says nothing of standardizing, which keeps the
        floor under the covariances (1e-6) small beside every score.

        Args:
            features: labelled in-distribution rows that the model was not trained on, with the scores of all parts.
            head: not read.
            components: number of Gaussians.
            seed: of the start of the fit.

        Raises:
            EvaluationError: a part has no scores or equal ones, or too few rows are classified right.
        """
        return _fit(detector, parts, features, components, seed)

    return make


_SOURCE = "Guille-Escuret et al. 2023, section 3"
ENS_V = Method("ens_v", "Ens-V", _SOURCE, _make("ens_v", VIT_PARTS), fit="validation", parts=VIT_PARTS)
ENS_R = Method("ens_r", "Ens-R", _SOURCE, _make("ens_r", RESNET_PARTS), fit="validation", parts=RESNET_PARTS)
ENS_F = Method("ens_f", "Ens-F", _SOURCE, _make("ens_f", FAST_PARTS), fit="validation", parts=FAST_PARTS)
