"""GMM: density of the features under one Gaussian a class, each with a covariance of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from unknown_detection.evaluation.detectors.base import (
    FEATURES,
    POSITIVE,
    Doubles,
    RowDetector,
    Scores,
    dots,
    require_rows_of_each_class,
)
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Head

_MOST = 8 << 30
"""Bytes of covariances that are fitted at most (ours): 1,000 classes of 1,000 features, or 250 of 2,048."""


@dataclass
class GMM(RowDetector):
    """Negative log density of the features under a mixture of one Gaussian a class (GMM).

    Formula: -log sum_c n_c / n N(z; m_c, S_c + r I) with n_c, m_c and S_c the number, mean and covariance of the
    fitted rows of class c, and r the `regularization`.
    Source: a classical baseline without a paper of its own, in pytorch-ood 2025 in this form; its r is 1e-6. OpenOOD's
    fits a mixture without labels to 50 principal components.
    """

    name, title, source = "gmm", "GMM", "pytorch-ood 2025 (no paper)"
    compared = "pytorch-ood 0.4"
    fits_on = "train"
    inputs = (FEATURES,)
    search: ClassVar = {"regularization": (1e-6, 1e-4, 1e-2, 1.0)}
    ranges: ClassVar = {"regularization": POSITIVE}

    regularization: float = 1e-6

    def _learn(self, features: Features, head: Head | None) -> None:
        classes, width = features.logits.shape[1], features.penultimate.shape[1]
        require_rows_of_each_class(features.labels, classes, 1, self.name)
        if classes * width**2 * 8 > _MOST:
            raise EvaluationError(
                f"gmm fits a covariance to each of {classes:,} classes, of {width:,} features: "
                f"{classes * width**2 * 8 / (1 << 30):,.0f} GiB. Leave it out; mahalanobis has one for all of them."
            )
        order = np.argsort(features.labels, kind="stable")
        self.means: list[Doubles] = []
        self.factors: list[Doubles] = []
        constants: list[float] = []
        for rows in np.split(order, np.cumsum(np.bincount(features.labels, minlength=classes))[:-1]):
            z = features.penultimate[rows].astype(np.float64)
            self.means.append(z.mean(axis=0))
            z -= self.means[-1]
            covariance = z.T @ z / len(z)
            covariance[np.diag_indices(width)] += self.regularization
            try:
                factor = np.linalg.cholesky(covariance)
            except np.linalg.LinAlgError as error:
                raise EvaluationError(
                    f"The covariance of class {len(constants)} is singular with regularization "
                    f"{self.regularization:g}, from {len(z):,} rows of {width:,} features. Give gmm a greater one."
                ) from error
            self.factors.append(np.asarray(factor, np.float64))
            logarithm = np.log(np.diag(factor)).sum() + width / 2 * np.log(2 * np.pi)
            constants.append(np.log(len(z) / len(features)) - logarithm)
        self.constants = np.array(constants)

    def _rows(self, z: Doubles) -> Scores:
        distances = np.empty((len(z), len(self.means)))
        for column, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            white = solve_triangular(factor, (z - mean).T, lower=True, overwrite_b=True, check_finite=False).T
            distances[:, column] = dots(white, white)
        return -logsumexp(self.constants - distances / 2, axis=1)
