"""Energy scores of modified features or weights of the last layer: ReAct, DICE, ASH, SCALE, VRA and RAS.

ReAct and ASH have also been applied to feature maps; here they use their spatial mean, the `penultimate` features. In
the formulas z (n, D) are these features, W (C, D) and b (C,) the layer, and E the energy, `logits.Energy` at T = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import RowDetector, Scores, setting
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.models.features import Doubles, Features, Integers

Variant = Literal["s", "b", "p"]


class ShapedEnergy(RowDetector):
    """The energy of the last layer's logits of modified features, which also predict the class."""

    reads_head = True
    _shape: ClassVar[Callable[..., Doubles]]
    """Modifies features, shape (m, D)."""

    def _logits(self, *inputs: Doubles) -> Doubles:
        return self._shape(*inputs) @ self.matrix.T + self.bias

    def _rows(self, z: Doubles, *others: Doubles) -> Scores:
        return energy(self._logits(z, *others))

    def _classes(self, *inputs: Doubles) -> Integers:
        return self._logits(*inputs).argmax(axis=1)


class ReAct(ShapedEnergy):
    """ReAct: energy of the logits of features clipped at an upper threshold.

    Formula: E(W min(z, c) + b) with c the quantile of all n D activations of the fitted rows, interpolated linearly.
    Source: Sun et al., ReAct: Out-of-distribution Detection With Rectified Activations, NeurIPS 2021, section 3; the
    90th percentile is theirs.
    """

    name, title, source = "react", "ReAct", "Sun et al. 2021, section 3"
    compared = "pytorch-ood 0.4"

    quantile: float = setting(0.9, 0.85, 0.95, 0.99, allowed=ranges.BELOW_ONE)

    def _learn(self, features: Features) -> None:
        self.threshold = _quantile(features.penultimate, self.quantile)

    def _shape(self, z: Doubles) -> Doubles:
        return np.minimum(z, self.threshold)


class DICE(ShapedEnergy):
    """DICE: energy of the logits computed with the layer's most contributing weights only.

    Formula: E((M * W) z + b) with M_cd = 1 where W_cd mean(z)_d exceeds the `sparsity` quantile of all C D of them.
    Source: Sun and Li, DICE: Leveraging Sparsification for Out-of-Distribution Detection, ECCV 2022, section 3.
    """

    name, title, source = "dice", "DICE", "Sun and Li 2022, section 3"
    compared = "pytorch-ood 0.4"

    sparsity: float = setting(0.9, 0.1, 0.3, 0.5, 0.7, allowed=ranges.BELOW_ONE)

    def _learn(self, features: Features) -> None:
        contribution = self.matrix * arrays.mean_features(features)
        self.matrix = np.where(contribution > _quantile(contribution, self.sparsity), self.matrix, 0.0)

    def _shape(self, z: Doubles) -> Doubles:
        return z


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

    lower: float = setting(0.6, 0.0, 0.5, allowed=ranges.SHARE)
    upper: float = setting(0.9, 0.85, 0.95, allowed=ranges.SHARE)

    def _learn(self, features: Features) -> None:
        z = features.penultimate
        # Some features at a time, in two fifths of the time, and without a copy of all rows.
        thresholds = [
            np.quantile(z[:, columns], (self.lower, self.upper), axis=0)
            for columns in arrays.chunks(z.shape[1], len(z))
        ]
        self.least, self.most = np.concatenate(thresholds, axis=1).astype(np.float64)

    def _shape(self, z: Doubles) -> Doubles:
        return np.where(z < self.least, 0.0, np.minimum(z, self.most))


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

    def _learn(self, features: Features) -> None:
        z = features.penultimate
        # In the features' own precision: sorting numbers of twice the size takes longer.
        sums = [np.sort(z[rows], axis=1).sum(axis=0, dtype=np.float64) for rows in arrays.chunks(len(z), z.shape[1])]
        self.profile = np.sum(sums, axis=0) / len(z)

    def _shape(self, z: Doubles) -> Doubles:
        shaped = np.empty_like(z)
        np.put_along_axis(shaped, np.argsort(z, axis=1, kind="stable"), self.profile[None], axis=1)
        return shaped


class ASH(ShapedEnergy):
    """ASH-S: energy of the logits of shaped features, E(W ash(z) + b); formula and source: `ash`."""

    name, title, source = "ash", "ASH", "Djurisic et al. 2023, algorithm 3 (ASH-S)"
    compared = "pytorch-ood 0.4"
    variant: ClassVar[Variant] = "s"

    pruned: float = setting(0.9, 0.65, 0.7, 0.75, 0.8, 0.85, 0.95, allowed=ranges.BELOW_ONE)

    def _shape(self, z: Doubles) -> Doubles:
        return ash(z, self.pruned, self.variant)


class ASHB(ASH):
    """ASH-B, OpenOOD's variant; see `ash`."""

    name, title, source = "ash_b", "ASH-B", "Djurisic et al. 2023, algorithm 2"
    compared = "pytorch-ood 0.4"
    variant = "b"


class ASHP(ASH):
    """ASH-P; see `ash`."""

    name, title, source = "ash_p", "ASH-P", "Djurisic et al. 2023, algorithm 1"
    compared = "pytorch-ood 0.4"
    variant = "p"


class SCALE(ShapedEnergy):
    """SCALE: energy of the logits of scaled features, E(W scale(z) + b); formula and source: `scale`."""

    name, title, source = "scale", "SCALE", "Xu et al. 2024, section 3"
    compared = "pytorch-ood 0.4"

    pruned: float = setting(0.85, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95, allowed=ranges.BELOW_ONE)

    def _shape(self, z: Doubles) -> Doubles:
        return scale(z, self.pruned)


def ash(z: Doubles, pruned: float, variant: Variant = "s") -> Doubles:
    """ASH: set most activations of each row to zero and rescale the others.

    Formula: with k = D - round(pruned D), at least 1 (ours), the k greatest of z are kept (the first of ties); s1 is
    the row's sum before, s2 after. P: they are unchanged. B: each becomes s1 / k. S: they are multiplied by exp(s1 /
    s2).
    Source: Djurisic et al., Extremely Simple Activation Shaping for Out-of-Distribution Detection, ICLR 2023, section
    2, algorithms 1 to 3.

    z are non-negative activations, shape (n, D), as is the result.
    """
    count = max(1, z.shape[1] - round(pruned * z.shape[1]))
    smallest = np.partition(z, z.shape[1] - count, axis=1)[:, z.shape[1] - count, None]
    selected = z >= smallest
    if np.count_nonzero(selected) > count * len(z):  # ties, which take longer
        greater, equal = z > smallest, z == smallest
        missing = count - greater.sum(axis=1, keepdims=True)
        selected = greater | (equal & (np.cumsum(equal, axis=1) <= missing))
    before = z.sum(axis=1, keepdims=True)
    if variant == "b":
        return np.where(selected, before / count, 0.0)
    shaped = np.where(selected, z, 0.0)
    return shaped if variant == "p" else _sharpened(shaped, before, shaped.sum(axis=1, keepdims=True))


def scale(z: Doubles, pruned: float) -> Doubles:
    """SCALE: multiply all activations of each row, more where its greatest ones hold less of the sum.

    Formula: z exp(s1 / s2) with s1 the row's sum and s2 the sum of its k = D - round(pruned D) greatest activations,
    at least one (ours). Unlike ASH-S, nothing is set to zero.
    Source: Xu et al., Scaling for Training Time and Post-hoc Out-of-distribution Detection Enhancement, ICLR 2024,
    section 3; pruned = 0.85 is theirs for ImageNet.

    z are non-negative activations, shape (n, D), as is the result.
    """
    count = min(round(pruned * z.shape[1]), z.shape[1] - 1)
    selected = np.partition(z, count, axis=1)[:, count:].sum(axis=1, keepdims=True)
    return _sharpened(z, z.sum(axis=1, keepdims=True), selected)


def _sharpened(z: Doubles, before: Doubles, after: Doubles) -> Doubles:
    """Multiply rows by exp(before / after); a row of zeros stays zero, whatever the factor."""
    return z * np.exp(np.divide(before, after, out=np.zeros_like(before), where=after != 0))


def _quantile(values: npt.NDArray[np.floating], quantile: float) -> float:
    """Return a quantile of all values of a matrix, interpolated linearly; `np.quantile` would do so in float32."""
    position = quantile * (values.size - 1)
    rank = int(position)
    upper = np.partition(values, rank, axis=None)[rank:]
    first, second = float(upper[0]), float(upper[1:].min(initial=np.inf))
    return first + (second - first) * (position - rank) if position > rank else first
