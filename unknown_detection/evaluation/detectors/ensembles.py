"""Ens-V, Ens-R and Ens-F: a Gaussian mixture of other detectors' scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unknown_detection.evaluation.detectors.base import Method, Scores
from unknown_detection.evaluation.detectors.fitting import labels_if_correct, require_labels, require_range
from unknown_detection.evaluation.detectors.rows import Doubles, score_in_chunks
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Head

# BROAD, section 3: for vision transformers, for ResNets, and the fast one.
VIT_PARTS = ("gradnorm", "odin", "mahalanobis_all", "mahalanobis", "cadet", "dice", "msp", "max_logit")
RESNET_PARTS = ("gradnorm", "odin", "mahalanobis_all", "mahalanobis", "cadet", "react", "vim", "doctor")
FAST_PARTS = ("msp", "max_logit", "mahalanobis_all", "mahalanobis", "energy")


@dataclass(frozen=True)
class ScoreMixture:
    """A fitted Gaussian mixture of scores.

    Attributes:
        base_methods: names of the detectors whose scores are combined.
        mean: mean of the fitted scores, shape (k,).
        scale: their standard deviation, shape (k,).
        mixture: scikit-learn's `GaussianMixture` of the standardized scores.
    """

    base_methods: tuple[str, ...]
    mean: Doubles
    scale: Doubles
    mixture: Any

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        return score_in_chunks(
            lambda scores: -self.mixture.score_samples((scores - self.mean) / self.scale),
            {"scores of " + ", ".join(self.base_methods): _stacked(features, self.base_methods)},
            features.ids,
            doubles_per_row=4 * len(self.base_methods) + 3 * self.mixture.n_components,
        )


def _stacked(features: Features, base_methods: tuple[str, ...]) -> Doubles:
    missing = [part for part in base_methods if part not in features.scores]
    if missing:
        raise EvaluationError(
            f"Scores of {', '.join(missing)} are missing, but the mixture combines {', '.join(base_methods)}. Score "
            "with these, too."
        )
    return np.stack([features.scores[part] for part in base_methods], axis=1)


def _make(detector: str, base_methods: tuple[str, ...]) -> Callable[..., ScoreMixture]:
    def make(features: Features, head: Head | None, components: int = 10, seed: int = 0) -> ScoreMixture:
        """Negative log density of a Gaussian mixture of scores.

        Formula: -log sum_i w_i N(s; m_i, S_i) with s the combined scores, standardized by mean and deviation of the
        fitted rows, and full covariances fitted by expectation maximization.
        Source: BROAD (Guille-Escuret et al., Expecting the Unexpected, 2023), section 3 and appendix C: fitted on
        correctly classified held-out rows, with as many components as detect errors among held-out rows best; of 1,
        2, 5, 10 and 20, 10 there. Standardizing is ours; it keeps the regularization of the
        covariances (1e-6) small relative to every score.

        Args:
            features: labelled in-distribution rows outside the training set, with the scores of all combined
                detectors.
            head: not read.
            components: number of Gaussians, for each of which enough rows must be correctly classified.
            seed: random seed of the initialization.
        """
        require_labels(features, detector)
        components = int(components)
        require_range(components >= 1, f"{detector} needs at least 1 component", components)
        scores = _stacked(features, base_methods)[labels_if_correct(features) >= 0]
        # A full covariance of k scores needs k + 1 rows.
        least = components * (len(base_methods) + 1)
        if len(scores) < least:
            raise EvaluationError(
                f"{detector} needs at least {least:,} correctly classified rows to fit {components} components of "
                f"{len(base_methods)} scores, found {len(scores):,} of {len(features):,}. Fit on more rows, or give "
                "fewer components."
            )
        mean, scale = scores.mean(axis=0), scores.std(axis=0)
        constant = [part for part, deviation in zip(base_methods, scale, strict=True) if not deviation > 0]
        if constant:
            raise EvaluationError(
                f"{detector} cannot be fitted: the scores of {', '.join(constant)} are constant or not finite. Leave "
                f"{detector} out."
            )
        from sklearn.mixture import GaussianMixture  # optional, and slow to import
        from threadpoolctl import threadpool_limits

        mixture = GaussianMixture(components, covariance_type="full", random_state=seed)
        # The rounding of multi-threaded sums differs between machines, and on a busy machine they take minutes.
        with threadpool_limits(1):
            mixture.fit((scores - mean) / scale)
        return ScoreMixture(base_methods, mean, scale, mixture)

    return make


# Appendix C, tables 6 and 7; the paper's choice first.
_COMPONENTS = {"components": (10.0, 1.0, 2.0, 5.0, 20.0)}


def _ensemble(name: str, title: str, parts: tuple[str, ...]) -> Method:
    return Method(
        name,
        title,
        source="Guille-Escuret et al. 2023, section 3",
        make=_make(name, parts),
        fit="validation",
        grid=_COMPONENTS,
        chosen_by="errors",
        base_methods=parts,
        requires=("sklearn",),
    )


ENS_V = _ensemble("ens_v", "Ens-V", VIT_PARTS)
ENS_R = _ensemble("ens_r", "Ens-R", RESNET_PARTS)
ENS_F = _ensemble("ens_f", "Ens-F", FAST_PARTS)
