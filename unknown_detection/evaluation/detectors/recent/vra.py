"""VRA: energy of features whose low activations are cut to zero, and high ones to a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknown_detection.evaluation.detectors.base import Doubles, Range, chunks
from unknown_detection.evaluation.detectors.shaping import ShapedEnergy
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Head

_SHARE = Range("0 to 1", lambda value: 0 <= value <= 1)


@dataclass
class VRA(ShapedEnergy):
    """VRA: energy of the logits of features without their abnormally low and high activations.

    Formula: E(W v(z) + b) with v(z)_d = 0 where z_d < a_d, b_d where z_d > b_d, else z_d; a_d and b_d are the `lower`
    and `upper` quantile of activation d over the fitted rows, interpolated linearly.
    Source: Xu et al., VRA: Variational Rectified Activation for Out-of-distribution Detection, NeurIPS 2023; quantiles
    of each feature and the defaults as in the authors' code for CIFAR-10 (upper is 0.95 for CIFAR-100). OpenOOD and
    pytorch-ood raise low activations to their threshold instead.
    """

    name, title, source = "vra", "VRA", "Xu et al. 2023"
    compared = "the authors' code (4dad931); pytorch-ood 0.4"
    fits_on = "train"
    search: ClassVar = {"lower": (0.6, 0.0, 0.5), "upper": (0.9, 0.85, 0.95)}
    ranges: ClassVar = {"lower": _SHARE, "upper": _SHARE}

    lower: float = 0.6
    upper: float = 0.9

    def _learn(self, features: Features, head: Head) -> None:
        super()._learn(features, head)
        if self.lower > self.upper:
            raise EvaluationError(
                f"lower of vra must not exceed upper, found {self.lower:g} and {self.upper:g}; give another."
            )
        z = features.penultimate
        # Some features at a time: a partition would copy the largest array of the whole evaluation.
        thresholds = [
            np.quantile(z[:, columns], (self.lower, self.upper), axis=0) for columns in chunks(z.shape[1], len(z))
        ]
        self.least, self.most = np.concatenate(thresholds, axis=1).astype(np.float64)

    def _shape(self, z: Doubles) -> Doubles:
        return np.where(z < self.least, 0.0, np.minimum(z, self.most))
