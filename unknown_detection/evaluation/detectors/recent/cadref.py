"""CARef and CADRef: relative distances of the features to the mean of the predicted class."""

from __future__ import annotations

from typing import Any

import numpy as np

from unknown_detection.evaluation.detectors.base import (
    FEATURES,
    LOGITS,
    Doubles,
    RowDetector,
    Scores,
    class_means,
    class_sums,
    layer,
    pieces,
    predicted,
    require_rows_of_each_class,
)
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.models.features import Features, Head


class CARef(RowDetector):
    """L1 distance of the features to the mean of the rows predicted alike, relative to their L1 norm (CARef).

    Formula: ||z - m_y||_1 / ||z||_1 with y = argmax l and m_c the mean features of the fitted rows that are predicted
    to be of class c; of those labelled c if none is (ours).
    Source: Ling et al., CADRef: Robust Out-of-Distribution Detection via Class-Aware Decoupled Relative Feature
    Leveraging, CVPR 2025, section 3.
    """

    name, title, source = "caref", "CARef", "Ling et al. 2025, section 3"
    cost = "values"
    compared = "the authors' code (121f74b)"
    fits_on = "train"
    inputs = (FEATURES, LOGITS)

    def _learn(self, features: Features, head: Head | None) -> None:
        predictions, classes = predicted(features), features.logits.shape[1]
        require_rows_of_each_class(features.labels, classes, 1, self.name)
        counts = np.bincount(predictions, minlength=classes)
        self.means = class_sums(features.penultimate, predictions, classes) / np.maximum(counts, 1)[:, None]
        if (never := counts == 0).any():
            self.means[never] = class_means(features.penultimate, features.labels, classes)[never]

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        with np.errstate(divide="ignore", invalid="ignore"):  # a row of zeros is refused by the check of all scores
            return np.abs(z - self.means[logits.argmax(axis=1)]).sum(axis=1) / np.abs(z).sum(axis=1)


class CADRef(CARef):
    """CARef's distance in two parts, one of which counts less where the model is confident (CADRef).

    Formula: (e+ / E(l) + e- / mean E) with E(l) = log sum_c exp l_c, its mean over the fitted rows, and e+ the part of
    the relative distance where the sign of z - m_y is that of the predicted class's weights w_y, e- that where it is
    the opposite.
    Source: Ling et al. 2025, section 3; the energy is the default of the authors' code.
    """

    name, title = "cadref", "CADRef"
    compared = CARef.compared
    reads_head = True

    def _learn(self, features: Features, head: Any) -> None:
        super()._learn(features, head)
        self.signs = np.sign(layer(head)[0])
        self.mean_energy = -sum(float(energy(chunk).sum()) for _, chunk in pieces(features.logits)) / len(features)

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        predictions = logits.argmax(axis=1)
        along = (z - self.means[predictions]) * self.signs[predictions]
        positive, negative = np.maximum(along, 0.0).sum(axis=1), np.maximum(-along, 0.0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (positive / -energy(logits) + negative / self.mean_energy) / np.abs(z).sum(axis=1)
