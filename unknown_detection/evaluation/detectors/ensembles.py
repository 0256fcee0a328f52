"""Ens-V, Ens-R and Ens-F: a Gaussian mixture of other detectors' scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknown_detection.evaluation.detectors.base import RowDetector, at_least
from unknown_detection.evaluation.detectors.rows import Doubles, Scores, labels_if_correct
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Floats, Head


@dataclass
class ScoreMixture(RowDetector):
    """Negative log density of a Gaussian mixture of other detectors' scores.

    Formula: -log sum_i w_i N(s; m_i, S_i) with s the combined scores, standardized by mean and deviation of the fitted
    rows, and full covariances fitted by expectation maximization.
    Source: BROAD (Guille-Escuret et al., Expecting the Unexpected, 2023), section 3 and appendix C: fitted on
    correctly classified held-out rows, with as many components as detect errors among held-out rows best; of 1, 2, 5,
    10 and 20 (tables 6 and 7), 10 there. Standardizing is ours; it keeps the regularization of the covariances (1e-6)
    small relative to every score.

    Args:
        components: number of Gaussians, for each of which enough rows must be correctly classified.
        seed: random seed of the initialization.
    """

    source = "Guille-Escuret et al. 2023, section 3"
    fits_on = "validation"
    search: ClassVar = {"components": (10, 1, 2, 5, 20)}
    ranges: ClassVar = {"components": at_least(1)}
    chosen_by = "errors"
    requires = ("sklearn",)

    components: int = 10
    seed: int = 0

    def _learn(self, features: Features, head: Head | None) -> None:
        components, bases = int(self.components), self.base_methods
        (scores,) = self._inputs(features).values()
        scores = scores[labels_if_correct(features) >= 0]
        # A full covariance of k scores needs k + 1 rows.
        least = components * (len(bases) + 1)
        if len(scores) < least:
            raise EvaluationError(
                f"{self.name} needs at least {least:,} correctly classified rows to fit {components} components of "
                f"{len(bases)} scores, found {len(scores):,} of {len(features):,}. Fit on more rows, or give fewer "
                "components."
            )
        self.mean, self.scale = scores.mean(axis=0), scores.std(axis=0)
        constant = [base for base, deviation in zip(bases, self.scale, strict=True) if not deviation > 0]
        if constant:
            raise EvaluationError(
                f"{self.name} cannot be fitted: the scores of {', '.join(constant)} are constant or not finite. Leave "
                f"{self.name} out."
            )
        from sklearn.mixture import GaussianMixture  # optional, and slow to import
        from threadpoolctl import threadpool_limits

        self.mixture = GaussianMixture(components, covariance_type="full", random_state=self.seed)
        # The rounding of multi-threaded sums differs between machines, and on a busy machine they take minutes.
        with threadpool_limits(1):
            self.mixture.fit((scores - self.mean) / self.scale)
        self.more = 3 * components

    def _inputs(self, features: Features) -> dict[str, Floats]:
        bases = ", ".join(self.base_methods)
        missing = [base for base in self.base_methods if base not in features.scores]
        if missing:
            raise EvaluationError(
                f"Scores of {', '.join(missing)} are missing, but the mixture combines {bases}. Score with these, too."
            )
        return {f"scores of {bases}": np.stack([features.scores[base] for base in self.base_methods], axis=1)}

    def _rows(self, scores: Doubles) -> Scores:
        log_densities: Scores = self.mixture.score_samples((scores - self.mean) / self.scale)
        return -log_densities


class EnsV(ScoreMixture):
    """The mixture of BROAD for vision transformers, see `ScoreMixture`."""

    name, title = "ens_v", "Ens-V"
    base_methods = ("gradnorm", "odin", "mahalanobis_all", "mahalanobis", "cadet", "dice", "msp", "max_logit")


class EnsR(ScoreMixture):
    """The mixture of BROAD for ResNets, see `ScoreMixture`."""

    name, title = "ens_r", "Ens-R"
    base_methods = ("gradnorm", "odin", "mahalanobis_all", "mahalanobis", "cadet", "react", "vim", "doctor")


class EnsF(ScoreMixture):
    """The fast mixture of BROAD, see `ScoreMixture`."""

    name, title = "ens_f", "Ens-F"
    base_methods = ("msp", "max_logit", "mahalanobis_all", "mahalanobis", "energy")
