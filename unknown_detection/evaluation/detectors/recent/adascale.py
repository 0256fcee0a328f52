"""AdaSCALE: energies scaled by each row's greatest activations, fewer or more of them after a small perturbation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import FEATURES, Scores, setting
from unknown_detection.evaluation.detectors.images import Columns, ImageDetector, ImagePass
from unknown_detection.evaluation.detectors.shaping import ShapedEnergy
from unknown_detection.evaluation.models.features import Doubles, Features, Floats
from unknown_detection.evaluation.models.models import Model
from unknown_detection.precision import exact_float32

_STEP = 0.5  # the authors' epsilon, in units of the preprocessed image


def run_on_trivial_pixels(model: Model, images: Any, ids: Sequence[str], *, seed: int, pixels: float) -> Columns:
    """Return the penultimate features of images moved where the greatest logit depends least on them.

    Formula: x + 0.5 sign(g) at the share `pixels` of the values with the least |g|, g the greatest logit's gradient.
    """
    import torch

    images = images.to(model.device)
    with exact_float32(), torch.enable_grad():
        moved = images.clone().requires_grad_()
        # A sum, so that gradients do not depend on the batch.
        (gradient,) = torch.autograd.grad(model.logits(moved).amax(dim=1).sum(), moved)
    flat = gradient.flatten(1)
    least = flat.abs().topk(int(flat.shape[1] * pixels), dim=1, largest=False).indices
    step = torch.zeros_like(flat).scatter_(1, least, _STEP * flat.gather(1, least).sign())
    return {"features": model.forward(images + step.view_as(images)).penultimate.float().cpu().numpy()}


class AdaSCALEA(ImageDetector, ShapedEnergy):
    """Energy of features scaled by a share of their greatest activations that depends on the row (AdaSCALE-A).

    Formula: E(W z exp(s) + b) with s = sum z / the sum of its D - round(p D) greatest values, negative ones as 0, and
    p = p_min + (1 - F(q)) (p_max - p_min). F is the distribution over the fitted rows of q = C + 10 Q: Q sums |z - z'|
    over the greatest 1 % of z (k1), C the positive part of z' over its greatest 5 % (k2), z' the features of the image
    moved at the `pixels` that matter least. At least one activation counts (ours).
    Source: Regmi, AdaSCALE: Adaptive Scaling for OOD Detection, 2025 (arXiv 2503.08023), section 4. k1 and k2 are as
    in the paper: an erratum of the author says that the code had exchanged them. p_min 0.6 and the share of pixels are
    the author's, the list that of the code, where only p_max is searched, and 0.85 that for ResNet-50.

    Args:
        upper: p_max, above 0.6.
        pixels: share of the image's values that are moved.
    """

    name, title, source = "adascale_a", "AdaSCALE-A", "Regmi 2025, section 4"
    compared = "OpenOOD 3c35632"
    cost = "gradients"
    fits_on = "validation"
    image_pass = ImagePass("trivial_pixels", run_on_trivial_pixels, depends_on=("pixels",), random=False)

    upper: float = setting(
        *(0.85, 0.65, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99),
        allowed=ranges.Range("0.6 to below 1", lambda value: 0.6 <= value < 1),
    )
    pixels: float = setting(0.05, allowed=ranges.BETWEEN)

    def _inputs(self, features: Features) -> dict[str, Floats]:
        return {FEATURES: features.penultimate, "features of the second pass": features.passed["features"]}

    def _learn(self, features: Features) -> None:
        self.shifts = np.sort(arrays.score_in_chunks(_shift, self._inputs(features), features.ids))

    def _scales(self, z: Doubles, moved: Doubles) -> Doubles:
        above = np.searchsorted(self.shifts, _shift(z, moved), side="right") / len(self.shifts)
        width, positive = z.shape[1], np.maximum(z, 0.0)
        counts = np.maximum(width - np.round((0.6 + (1 - above) * (self.upper - 0.6)) * width).astype(np.int64), 1)
        sums = np.cumsum(-np.sort(-positive, axis=1), axis=1)
        greatest = sums[np.arange(len(z)), counts - 1]
        return np.divide(sums[:, -1], greatest, out=np.zeros_like(greatest), where=greatest > 0)[:, None]

    def _shape(self, z: Doubles, moved: Doubles) -> Doubles:
        return z * np.exp(self._scales(z, moved))


class AdaSCALEL(AdaSCALEA):
    """Energy of logits scaled as AdaSCALE-A's features are (AdaSCALE-L).

    Formula: E(s^2 (W z + b)) with s as in `AdaSCALEA`.
    Source: Regmi 2025, section 4, as `AdaSCALEA`.
    """

    name, title = "adascale_l", "AdaSCALE-L"
    compared = AdaSCALEA.compared

    def _logits(self, *inputs: Doubles) -> Doubles:
        return self._scales(*inputs) ** 2 * (inputs[0] @ self.matrix.T + self.bias)


def _shift(z: Doubles, moved: Doubles) -> Scores:
    """Return C + 10 Q of rows, shape (n,)."""
    order = np.argsort(-z, axis=1, kind="stable")
    few, some = (max(1, z.shape[1] * percent // 100) for percent in (1, 5))
    shift = np.take_along_axis(np.abs(z - moved), order[:, :few], axis=1).sum(axis=1)
    return np.maximum(np.take_along_axis(moved, order[:, :some], axis=1), 0.0).sum(axis=1) + 10 * shift
