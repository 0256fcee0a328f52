"""RAS: energy of features whose values are replaced by a fixed profile, in their order."""

from __future__ import annotations

import numpy as np

from unknown_detection.evaluation.detectors.base import Doubles, chunks
from unknown_detection.evaluation.detectors.shaping import ShapedEnergy
from unknown_detection.evaluation.models.features import Features, Head


class RAS(ShapedEnergy):
    """Energy of the logits of features with the values of a typical row, in the row's own order (RAS).

    Formula: E(W r(z) + b) with r(z)_d = m_k where z_d is the k-th smallest of its row, and m_k the mean over the
    fitted rows of their k-th smallest value. Of equal values of a row, which ReLU makes many, the first counts as
    smaller (ours; the authors' sort leaves it open).
    Source: Guglielmo and Masana, Ranked Activation Shift for Post-Hoc Out-of-Distribution Detection, 2026 (arXiv
    2604.08572), and the authors' code. There is nothing to set.
    """

    name, title, source = "ras", "RAS", "Guglielmo and Masana 2026"
    compared = "the authors' code (313d8e0)"
    fits_on = "train"

    def _learn(self, features: Features, head: Head) -> None:
        super()._learn(features, head)
        z = features.penultimate
        # In the features' own precision: sorting numbers of twice the size takes longer.
        sums = [np.sort(z[rows], axis=1).sum(axis=0, dtype=np.float64) for rows in chunks(len(z), z.shape[1])]
        self.profile = np.sum(sums, axis=0) / len(z)

    def _shape(self, z: Doubles) -> Doubles:
        shaped = np.empty_like(z)
        np.put_along_axis(shaped, np.argsort(z, axis=1, kind="stable"), self.profile[None], axis=1)
        return shaped
