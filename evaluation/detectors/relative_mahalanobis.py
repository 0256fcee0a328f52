"""Relative Mahalanobis distance (RMDS): to the nearest class, less that to all rows together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.detectors.base import Method, Scores
from evaluation.detectors.fitting import require_labels, require_rows_of_each_class
from evaluation.detectors.mahalanobis import ClassGaussians, fit_class_gaussians
from evaluation.detectors.rows import require_width, score_in_chunks
from evaluation.models.features import Features, Head

_NAME = "penultimate features"


@dataclass(frozen=True)
class RelativeMahalanobis:
    """A fitted RMDS detector.

    Attributes:
        classes: the Gaussians of the classes.
        background: one Gaussian of all rows.
    """

    classes: ClassGaussians
    background: ClassGaussians

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        classes, width = self.classes.means.shape
        require_width(_NAME, features.penultimate, width)
        device = self.classes.device(len(features))
        return score_in_chunks(
            lambda z: self.classes.distances(z, device) - self.background.distances(z, device),
            {_NAME: features.penultimate},
            features.ids,
            doubles_per_row=4 * width + 2 * classes,
        )


def make_rmds(features: Features, head: Head | None) -> RelativeMahalanobis:
    """Relative Mahalanobis distance of the penultimate features (RMDS).

    Formula: min_c MD_c(z) - MD_0(z), with MD_c(z) = (z - mean_c)^T S^-1 (z - mean_c) as in `make_mahalanobis`, and
    MD_0 the same with the mean and the covariance of all fitted rows, whatever their class. Both covariances are
    shrunk where they cannot be inverted, see `fit_class_gaussians` (ours).
    Source: Ren et al., A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection, 2021, section 3.

    Args:
        features: labelled in-distribution rows, at least two of each class.
        head: not read.

    Raises:
        EvaluationError: a class has fewer rows, a row is unlabelled, or a covariance cannot be inverted.
    """
    require_labels(features, "rmds")
    classes = features.logits.shape[1]
    require_rows_of_each_class(features.labels, classes, 2, "rmds")
    together = np.zeros_like(features.labels)
    return RelativeMahalanobis(
        fit_class_gaussians(_NAME, features.penultimate, features.labels, classes, features.ids),
        fit_class_gaussians(_NAME, features.penultimate, together, 1, features.ids),
    )


RMDS = Method("rmds", "RMDS", "Ren et al. 2021, section 3", make_rmds, fit="train")
