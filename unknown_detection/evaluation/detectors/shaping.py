"""Energy scores of modified features or weights of the last linear layer: ReAct, DICE, ASH, SCALE.

ReAct and ASH have also been applied to feature maps; here they use their spatial mean, the `penultimate` features. In
the formulas z (n, D) are these features, W (C, D) and b (C,) the layer, and E the energy, `logits.energy` at T = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors.base import Method, Scores
from unknown_detection.evaluation.detectors.fitting import layer, mean_features, require_fit, require_range
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.detectors.rows import FEATURES, Doubles, RowScore, as_float64, chunks, require_width
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Head

Variant = Literal["s", "b", "p"]


@dataclass(frozen=True)
class ShapedEnergy:
    """The energy of the last layer's logits of modified features.

    Attributes:
        shape: maps features (m, D) to modified ones.
        weight: shape (C, D), float64.
        bias: shape (C,), float64.
    """

    shape: Callable[[Doubles], Doubles]
    weight: Doubles
    bias: Doubles

    def _logits(self, z: Doubles) -> Doubles:
        return self.shape(z) @ self.weight.T + self.bias

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        classes, width = self.weight.shape
        return RowScore(lambda z: energy(self._logits(z)), width, more=4 * classes).score(features)

    def predict(self, features: Features) -> npt.NDArray[np.int64]:
        """Return the class of the greatest of these logits, shape (n,)."""
        classes, width = self.weight.shape
        require_width(FEATURES, features.penultimate, width)
        predicted = np.empty(len(features), dtype=np.int64)
        for rows in chunks(len(features), 6 * width + 4 * classes):
            z = as_float64(FEATURES, features.penultimate, rows, features.ids)
            predicted[rows] = self._logits(z).argmax(axis=1)
        return predicted


def _require_share(name: str, value: float, detector: str) -> None:
    require_range(0 <= value < 1, f"{name} of {detector} must be at least 0 and below 1", value)


def _require_some_kept(detector: str, pruned: float, head: Head) -> None:
    _require_share("pruned", pruned, detector)
    width = head.weight.shape[1]
    if round(pruned * width) == width:
        raise EvaluationError(
            f"{detector} would keep none of {width} features with pruned = {pruned}; give a smaller one."
        )


def make_react(features: Features, head: Head, quantile: float = 0.9) -> ShapedEnergy:
    """ReAct: energy of the logits of features clipped at an upper threshold.

    Formula: E(W min(z, c) + b) with c the quantile of all n D activations of the fitted rows, interpolated linearly.
    Source: Sun et al., ReAct: Out-of-distribution Detection With Rectified Activations, NeurIPS 2021, section 3; the
    90th percentile is theirs.
    """
    _require_share("quantile", quantile, "react")
    require_fit(features, head, "react")
    mean_features(features)  # refuses NaN
    threshold = _quantile(features.penultimate, quantile)
    return ShapedEnergy(lambda z: np.minimum(z, threshold), *layer(head))


def _quantile(values: npt.NDArray[np.floating], quantile: float) -> float:
    """Return a quantile of all values of a matrix, interpolated linearly, without a copy of them.

    ReAct's are all features of the training set: a partition would copy the largest array of the whole evaluation.
    """
    position = quantile * (values.size - 1)
    below = int(position)
    low, high = _order_statistics(values, below)
    return low + (high - low) * (position - below) if position > below else low


def _order_statistics(values: npt.NDArray[np.floating], rank: int) -> tuple[float, float]:
    """Return the value of a rank, counted from 0, and the next one, of a matrix; radix selection by 16 bits a pass."""
    kind = np.dtype(f"u{values.itemsize}")
    sign = kind.type(1 << (8 * values.itemsize - 1))

    def keys() -> Iterator[npt.NDArray[np.unsignedinteger]]:
        """Yield integers that sort as the numbers do."""
        for rows in chunks(len(values), 4 * values.shape[1]):
            bits = values[rows].view(kind)
            yield np.where(bits & sign, ~bits, bits | sign).ravel()

    found, left, equal = 0, rank, 0
    for shift in range(8 * values.itemsize - 16, -1, -16):
        counts = np.zeros(1 << 16, dtype=np.int64)
        for some in keys():
            begun = some >> shift
            counts += np.bincount(begun[begun >> 16 == found].astype(np.uint16), minlength=1 << 16)
        upto = np.cumsum(counts)
        digit = int(np.searchsorted(upto, left, side="right"))
        equal = int(counts[digit])
        left -= int(upto[digit]) - equal
        found = found << 16 | digit
    above = found
    if left + 1 == equal:
        above = min((int(some[some > found].min()) for some in keys() if (some > found).any()), default=found)
    bits = np.array([found, above], dtype=kind)
    low, high = np.where(bits & sign, bits ^ sign, ~bits).view(values.dtype).tolist()
    return low, high


def make_dice(features: Features, head: Head, sparsity: float = 0.9) -> ShapedEnergy:
    """DICE: energy of the logits computed with the layer's most contributing weights only.

    Formula: E((M * W) z + b) with M_cd = 1 where W_cd mean(z)_d exceeds the `sparsity` quantile of all C D of them.
    Source: Sun and Li, DICE: Leveraging Sparsification for Out-of-Distribution Detection, ECCV 2022, section 3.
    """
    _require_share("sparsity", sparsity, "dice")
    require_fit(features, head, "dice")
    weight, bias = layer(head)
    contribution = weight * mean_features(features)
    kept = contribution > _quantile(contribution, sparsity)
    return ShapedEnergy(lambda z: z, np.where(kept, weight, 0.0), bias)


def ash(z: Doubles, pruned: float, variant: Variant = "s") -> Doubles:
    """ASH: set most activations of each row to zero and rescale the others.

    Formula: with k = D - round(pruned D), the k greatest of z are kept (the first of ties); s1 is the row's sum
    before, s2 after. P: they are unchanged. B: each becomes s1 / k. S: they are multiplied by exp(s1 / s2).
    Source: Djurisic et al., Extremely Simple Activation Shaping for Out-of-Distribution Detection, ICLR 2023, section
    2, algorithms 1 to 3.

    Args:
        z: non-negative activations, shape (n, D).
        pruned: fraction to set to zero, in [0, 1).
        variant: one of the three.

    Returns:
        Shape (n, D).
    """
    kept_count = z.shape[1] - round(pruned * z.shape[1])
    smallest = np.partition(z, z.shape[1] - kept_count, axis=1)[:, z.shape[1] - kept_count, None]
    greater, equal = z > smallest, z == smallest
    missing = kept_count - greater.sum(axis=1, keepdims=True)
    kept = greater | (equal & (np.cumsum(equal, axis=1) <= missing))
    before = z.sum(axis=1, keepdims=True)
    if variant == "b":
        return np.where(kept, before / kept_count, 0.0)
    shaped = np.where(kept, z, 0.0)
    return shaped if variant == "p" else _sharpened(shaped, before, shaped.sum(axis=1, keepdims=True))


def scale(z: Doubles, pruned: float) -> Doubles:
    """SCALE: multiply all activations of each row, more where its greatest ones hold less of the sum.

    Formula: z exp(s1 / s2) with s1 the row's sum and s2 the sum of its k = D - round(pruned D) greatest activations.
    Unlike ASH-S, nothing is set to zero.
    Source: Xu et al., Scaling for Training Time and Post-hoc Out-of-distribution Detection Enhancement, ICLR 2024,
    section 3.

    Args:
        z: non-negative activations, shape (n, D).
        pruned: fraction of the activations that do not count for s2, in [0, 1).

    Returns:
        Shape (n, D).
    """
    left_out = round(pruned * z.shape[1])
    kept = np.partition(z, left_out, axis=1)[:, left_out:].sum(axis=1, keepdims=True)
    return _sharpened(z, z.sum(axis=1, keepdims=True), kept)


def _sharpened(z: Doubles, before: Doubles, after: Doubles) -> Doubles:
    """Multiply rows by exp(before / after); a row of zeros stays zero, whatever the factor."""
    return z * np.exp(np.divide(before, after, out=np.zeros_like(before), where=after != 0))


def make_ash(features: Features | None, head: Head, pruned: float = 0.9, variant: Variant = "s") -> ShapedEnergy:
    """ASH: energy of the logits of shaped features, E(W ash(z) + b); see `ash`."""
    _require_some_kept("ash", pruned, head)
    if variant not in ("s", "b", "p"):
        raise EvaluationError(f"ash has no variant {variant!r}; choose s, b or p. The paper's S is the default.")
    return ShapedEnergy(lambda z: ash(z, pruned, variant), *layer(head))


def make_ash_b(features: Features | None, head: Head, pruned: float = 0.9) -> ShapedEnergy:
    """ASH-B, OpenOOD's variant; see `make_ash`."""
    return make_ash(features, head, pruned, "b")


def make_ash_p(features: Features | None, head: Head, pruned: float = 0.9) -> ShapedEnergy:
    """ASH-P; see `make_ash`."""
    return make_ash(features, head, pruned, "p")


def make_scale(features: Features | None, head: Head, pruned: float = 0.85) -> ShapedEnergy:
    """SCALE: energy of the logits of scaled features, E(W scale(z) + b); see `scale`. 0.85 is theirs for ImageNet."""
    _require_some_kept("scale", pruned, head)
    return ShapedEnergy(lambda z: scale(z, pruned), *layer(head))


_SHARE = "0 to below 1"
_DJURISIC = "Djurisic et al. 2023, algorithm"
_ASH = {"pruned": (0.9, 0.65, 0.7, 0.75, 0.8, 0.85, 0.95)}
_SCALE = {"pruned": (0.85, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95)}
_QUANTILES = {"quantile": (0.9, 0.85, 0.95, 0.99)}
_SPARSITIES = {"sparsity": (0.9, 0.1, 0.3, 0.5, 0.7)}
_PRUNED = {"pruned": _SHARE}
_SUN, _LI = "Sun et al. 2021, section 3", "Sun and Li 2022, section 3"
REACT = Method("react", "ReAct", _SUN, make_react, "train", _QUANTILES, ranges={"quantile": _SHARE}, reads_head=True)
DICE = Method("dice", "Dice", _LI, make_dice, "train", _SPARSITIES, ranges={"sparsity": _SHARE}, reads_head=True)
ASH = Method("ash", "ASH", f"{_DJURISIC} 3 (ASH-S)", make_ash, grid=_ASH, ranges=_PRUNED, reads_head=True)
ASH_B = Method("ash_b", "ASH-B", f"{_DJURISIC} 2", make_ash_b, grid=_ASH, ranges=_PRUNED, reads_head=True)
ASH_P = Method("ash_p", "ASH-P", f"{_DJURISIC} 1", make_ash_p, grid=_ASH, ranges=_PRUNED, reads_head=True)
SCALE = Method("scale", "SCALE", "Xu et al. 2024, section 3", make_scale, grid=_SCALE, ranges=_PRUNED, reads_head=True)
