"""Scores of the penultimate features by the predicted class: SHE, GradNorm, fDBD, NCI, CARef and CADRef.

In the formulas z (n, D) are the penultimate features, l (n, C) the logits, W (C, D) and b (C,) the last linear layer.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import RowDetector, Scores, setting
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.models.features import Doubles, Features


class SHE(RowDetector):
    """SHE: negative inner product with the predicted class's pattern.

    Formula: -z . S_y with y = argmax l and S_c the mean features of correctly classified fitted rows of class c; of
    all fitted rows of class c if none is (ours).
    Source: Zhang et al., Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization with Modern
    Hopfield Energy, ICLR 2023, section 3 (inner product version).
    """

    name, title, source = "she", "SHE", "Zhang et al. 2023, section 3"
    cost = "values"
    compared = "pytorch-ood 0.4"

    def _learn(self, features: Features) -> None:
        labels, self.remark = arrays.labels_to_fit(features, 1, self.name)
        classes = features.logits.shape[1]
        self.patterns = arrays.class_means(features.penultimate, labels, classes)

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        return -arrays.dots(z, self.patterns[logits.argmax(axis=1)])


class GradNorm(RowDetector):
    """GradNorm of the last layer's weights, at temperature 1.

    Formula: -||z||_1 ||softmax(l) - 1/C||_1, the negative L1 norm of the gradient with respect to W of the mean
    cross-entropy between the uniform distribution and the softmax; this gradient is an outer product of the two.
    Source: Huang et al., On the Importance of Gradients for Detecting Distributional Shifts in the Wild, NeurIPS 2021,
    sections 3 and 5 (last layer, temperature 1).
    """

    name, title, source = "gradnorm", "GradNorm", "Huang et al. 2021, section 3"
    cost = "values"
    compared = "pytorch-ood 0.4"
    reads_head = True

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        distances = np.abs(softmax(logits, axis=1) - 1 / logits.shape[1]).sum(axis=1)
        return -np.abs(z).sum(axis=1) * distances


class FDBD(RowDetector):
    """Mean distance to the other classes' decision boundaries, relative to the deviation from the mean (fDBD).

    Formula: -1/(C - 1) sum_{c != y} (l_y - l_c) / (||w_y - w_c||_2 ||z - u||_2), with l = W z + b, y = argmax l and u
    the mean of the fitted rows' features.
    Source: Liu and Qin, Fast Decision Boundary based Out-of-Distribution Detector, ICML 2024, section 3. In OpenOOD
    its authors also divide by ||z||_2 instead, and choose between both on validation data: `centred` does. It is 1 for
    the distance to the mean, 0 for the features' norm.
    """

    name, title, source = "fdbd", "fDBD", "Liu and Qin 2024, section 3"
    compared = "pytorch-ood 0.4"
    reads_head = True

    centred: int = setting(1, 0, allowed=ranges.SWITCH)

    def _learn(self, features: Features) -> None:
        distances = cdist(self.matrix, self.matrix)
        np.fill_diagonal(distances, np.inf)
        with np.errstate(divide="ignore"):  # of equal weights; rows of such a class are refused
            self.inverse = 1 / distances
        self.origin = arrays.mean_features(features) if self.centred else 0.0

    def _rows(self, z: Doubles) -> Scores:
        logits = z @ self.matrix.T
        logits += self.bias
        place = logits.argmax(axis=1)
        margins = logits[np.arange(len(z)), place, None] - logits
        relative = arrays.dots(margins, self.inverse[place])
        centred = z - self.origin
        deviation = np.sqrt(arrays.dots(centred, centred))
        return -relative / (deviation * (len(self.bias) - 1))


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
    reads_head = True
    at_once = 1024  # a few operations a value: what stays in a core's cache takes less than half the time

    alpha: float = setting(0.0001, 0.001, 0.01, 0.1, allowed=ranges.at_least(0))

    def _learn(self, features: Features) -> None:
        self.mean = arrays.mean_features(features)

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        centred = z - self.mean
        nearness = arrays.dots(self.matrix[logits.argmax(axis=1)], centred) / np.sqrt(arrays.dots(centred, centred))
        return -nearness - self.alpha * np.abs(z).sum(axis=1)


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

    def _learn(self, features: Features) -> None:
        classes = features.logits.shape[1]
        arrays.require_rows_of_each_class(features.labels, classes, 1, self.name)
        self.means = arrays.class_means(features.penultimate, arrays.predicted(features), classes)
        if (never := np.isnan(self.means[:, 0])).any():
            self.means[never] = arrays.class_means(features.penultimate, features.labels, classes)[never]

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
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

    def _learn(self, features: Features) -> None:
        super()._learn(features)
        self.signs = np.sign(self.matrix)
        energies = sum(float(energy(chunk).sum()) for _, chunk in arrays.pieces(features.logits))
        self.mean_energy = -energies / len(features)

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        predictions = logits.argmax(axis=1)
        along = (z - self.means[predictions]) * self.signs[predictions]
        positive, negative = np.maximum(along, 0.0).sum(axis=1), np.maximum(-along, 0.0).sum(axis=1)
        return (positive / -energy(logits) + negative / self.mean_energy) / np.abs(z).sum(axis=1)
