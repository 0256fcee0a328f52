"""CombOOD: the distance to near fitted rows, and the Mahalanobis distance to all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from unknown_detection.evaluation.detectors.base import Doubles, dots, draw_rows
from unknown_detection.evaluation.detectors.neighbors import KNN
from unknown_detection.evaluation.models.features import Features, Head

_ROWS = 10_000
"""Fitted rows that the transform and the covariance are fitted on at most, drawn by id (ours)."""

_LEAST = 1e-20
"""What a squared distance is at least: its logarithm is finite (ours)."""


@dataclass
class CombOOD(KNN):
    """Squared Mahalanobis distance, plus the logarithm of the squared distance to the k-th nearest row (CombOOD).

    Formula: x^T (S + I)^-1 x + sqrt(D) log d_k^2 with d_k as in `KNN`, x the features, each standardized and made
    normal by Yeo and Johnson's transform of the fitted rows, and S their covariance.
    Source: Rajasekaran et al., COMBOOD: A Semiparametric Approach for Detecting Out-of-distribution Data for Image
    Classification, SDM 2024, and the authors' code ("square log probability"; k = 50). Both distances are of the
    penultimate features, one of the code's strategies; its entry on OpenOOD's board, which is disputed, takes the
    first of the least and greatest activations of every layer. That is to the mean of all rows, not of classes.
    """

    name, title, source = "combood", "CombOOD", "Rajasekaran et al. 2024 (penultimate features)"
    requires = ("sklearn",)
    search: ClassVar = {"k": (50, 10, 200)}

    def _learn(self, features: Features, head: Head | None) -> None:
        from sklearn.pipeline import make_pipeline  # optional, and slow to import
        from sklearn.preprocessing import PowerTransformer, StandardScaler

        super()._learn(features, head)
        fitted = features.penultimate[draw_rows(features.ids, _ROWS, 0)].astype(np.float64)
        self.normal = make_pipeline(StandardScaler(), PowerTransformer())
        covariance = np.cov(self.normal.fit_transform(fitted), rowvar=False)
        self.factor = np.linalg.cholesky(covariance + np.eye(len(covariance)))

    def _rows_together(self, detectors: Sequence[Any], *inputs: Doubles) -> Doubles:
        """Search once, for the greatest k."""
        nearest = np.maximum(super()._rows_together(detectors, *inputs) ** 2, _LEAST)
        if not len(nearest):
            return nearest
        white = solve_triangular(self.factor, self.normal.transform(inputs[0]).T, lower=True).T
        return dots(white, white)[:, None] + np.sqrt(inputs[0].shape[1]) * np.log(nearest)
