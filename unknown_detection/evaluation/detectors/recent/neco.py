"""NECO: how much of the standardized features lies in their principal subspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknown_detection.evaluation.detectors.base import (
    FEATURES,
    LOGITS,
    Doubles,
    Range,
    RowDetector,
    Scores,
    mean_features,
    pieces,
)
from unknown_detection.evaluation.models.features import Features, Head

_SWITCH = Range("0 or 1", lambda value: value in (0, 1))


@dataclass
class NECO(RowDetector):
    """Negative share of the features in their principal subspace, times the greatest logit (NECO).

    Formula: -||P x||_2 / ||x||_2 max_c l_c with x = (z - mean) / deviation and P the first principal directions of the
    fitted rows' x, as many as hold the share `explained` of their variance.
    Source: Ben Ammar et al., NECO: Neural Collapse Based Out-of-distribution Detection, ICLR 2024, section 4, equation
    6. The authors' code multiplies by the greatest logit except for ResNets (`times_logit` 0). It takes 100
    directions; that they hold 0.9 of the variance, whatever the width, is Müller and Hein's (2025, in their code).
    """

    name, title, source = "neco", "NECO", "Ben Ammar et al. 2024, equation 6"
    compared = "Müller and Hein's code (53de550); scikit-learn"
    fits_on = "train"
    inputs = (FEATURES, LOGITS)
    search: ClassVar = {"explained": (0.9, 0.5, 0.8, 0.95, 0.99), "times_logit": (1, 0)}
    ranges: ClassVar = {"explained": Range("above 0, below 1", lambda value: 0 < value < 1), "times_logit": _SWITCH}

    explained: float = 0.9
    times_logit: int = 1

    def _learn(self, features: Features, head: Head | None) -> None:
        self.mean = mean_features(features)
        scatter = np.zeros((len(self.mean), len(self.mean)))
        for _, z in pieces(features.penultimate):
            centred = z - self.mean
            scatter += centred.T @ centred
        deviation = np.sqrt(np.diag(scatter) / len(features))
        self.scale = np.where(deviation > 0, deviation, 1.0)
        variances, directions = np.linalg.eigh(scatter / np.outer(self.scale, self.scale))  # ascending
        shares = np.cumsum(variances[::-1]) / variances.sum()
        self.directions = directions[:, ::-1][:, : int(np.argmax(shares >= self.explained)) + 1]

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        standard = (z - self.mean) / self.scale
        lengths = np.linalg.norm(standard, axis=1)
        inside = np.linalg.norm(standard @ self.directions, axis=1)
        shares = np.divide(inside, lengths, out=np.zeros_like(inside), where=lengths > 0)
        return -shares * logits.max(axis=1) if self.times_logit else -shares
