"""NAC-UE: how often fitted rows activate the neurons of the last features as a row does."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import RowDetector, Scores, setting
from unknown_detection.evaluation.models.features import Doubles, Features, Integers


class NACUE(RowDetector):
    """Negative mean coverage of the neurons of the penultimate features (NAC-UE).

    Formula: -1/D sum_d min(1, n_d(s_d) / enough) with s = sigmoid(steepness z * g), g = W^T (softmax(l) - 1/C) the
    gradient of KL(u || softmax(l)) with respect to z, u uniform, and n_d(s) the number of fitted rows whose s_d is in
    the bin of s. The bins' ends are log_1000 of equal steps from 1 to 1000^(1/2), and one less these: narrow around
    1/2, where the gradient is 0.
    Source: Liu et al., Neuron Activation Coverage: Rethinking Out-of-distribution Detection and Generalization, ICLR
    2024, section 3; bins and defaults as in the authors' code for the last layer on CIFAR-10, with 1,000 rows. They
    average over more layers, each with a steepness of its own to tune; this one needs no second pass.

    Args:
        steepness: of the sigmoid.
        bins: number of bins, an even one; the last two are never hit.
        enough: fitted rows from which on a bin is covered.
        rows: maximum number of rows to fit on, drawn by id.
        seed: random seed of that draw.
    """

    name, title, source = "nac_ue", "NAC-UE", "Liu et al. 2024, section 3 (last layer)"
    compared = "the authors' code (in mgranz/weiper 1c27a4f)"
    reads_head = True

    steepness: float = setting(100.0, 1.0, 10.0, 50.0, allowed=ranges.POSITIVE)
    bins: int = setting(50, 500, allowed=ranges.Range("4 or more, even", lambda value: value >= 4 and value % 2 == 0))
    enough: int = setting(50, allowed=ranges.at_least(1))
    rows: int = setting(1000, allowed=ranges.at_least(1))
    seed: int = 0

    def _learn(self, features: Features) -> None:
        half = int(self.bins) // 2
        low = np.log(np.linspace(1, np.sqrt(1e3), half)) / np.log(1e3)
        self.ends = np.concatenate([low[:-1], (1 - low)[::-1]])
        self.ends[-1] += 0.01  # a state of 1 is in the last bin
        width, places = self.matrix.shape[1], arrays.draw_rows(features.ids, int(self.rows), self.seed)
        counts = np.zeros(len(self.ends) * width)
        for part in arrays.chunks(len(places), width):
            rows = places[part]
            z, logits = (values[rows].astype(np.float64) for values in (features.penultimate, features.logits))
            counts += np.bincount(self._cells(z, logits).ravel(), minlength=len(counts))
        self.coverage = np.minimum(counts / self.enough, 1.0)

    def _cells(self, z: Doubles, logits: Doubles) -> Integers:
        """Return the number of bin and neuron of each feature, shape (m, D)."""
        gradients = (softmax(logits, axis=1) - 1 / logits.shape[1]) @ self.matrix
        bins = np.searchsorted(self.ends, expit(self.steepness * z * gradients), side="right") - 1
        return np.asarray(bins * z.shape[1] + np.arange(z.shape[1]))

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        return -self.coverage[self._cells(z, logits)].mean(axis=1)
