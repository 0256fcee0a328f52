"""NCI: how near features are to the predicted class's weights, and to the origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknown_detection.evaluation.detectors.base import (
    FEATURES,
    LOGITS,
    Doubles,
    RowDetector,
    Scores,
    at_least,
    dots,
    layer,
    mean_features,
)
from unknown_detection.evaluation.models.features import Features, Head


@dataclass
class NCI(RowDetector):
    """Negative projection of the predicted class's weights on the centred features, with their norm (NCI).

    Formula: -(w_y . (z - u) / ||z - u||_2 + alpha ||z||_1) with y = argmax l and u the mean of the fitted rows'
    features.
    Source: Liu and Qin, Detecting Out-of-Distribution Through the Lens of Neural Collapse, CVPR 2025, section 4; the
    list to search and its first value are OpenOOD's.
    """

    name, title, source = "nci", "NCI", "Liu and Qin 2025, section 4"
    cost = "values"
    compared = "pytorch-ood 0.4"
    fits_on = "train"
    reads_head = True
    inputs = (FEATURES, LOGITS)
    at_once = 1024  # a few operations a value: what stays in a core's cache takes less than half the time
    search: ClassVar = {"alpha": (0.0001, 0.001, 0.01, 0.1)}
    ranges: ClassVar = {"alpha": at_least(0)}

    alpha: float = 0.0001

    def _learn(self, features: Features, head: Head) -> None:
        self.weight, _ = layer(head)
        self.mean = mean_features(features)

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        centred = z - self.mean
        lengths = np.sqrt(dots(centred, centred))
        with np.errstate(divide="ignore", invalid="ignore"):  # a row at the mean is refused by the check of scores
            nearness = dots(self.weight[logits.argmax(axis=1)], centred) / lengths
        return -nearness - self.alpha * np.abs(z).sum(axis=1)
