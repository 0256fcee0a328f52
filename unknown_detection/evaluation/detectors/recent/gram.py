"""Gram matrices: how far correlations of channels leave the range that fitted rows of the predicted class span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import arrays
from unknown_detection.evaluation.detectors.base import LOGITS, Scores
from unknown_detection.evaluation.detectors.images import Columns, ImageDetector, ImagePass
from unknown_detection.evaluation.models.features import Doubles, Features, Floats, Integers
from unknown_detection.evaluation.models.layers import capture_outputs, channels_last
from unknown_detection.evaluation.models.models import Model
from unknown_detection.precision import exact_float32

POWERS = (1, 2, 3, 4, 5)
"""Orders of the Gram matrices, OpenOOD's; the paper has 1 to 10."""

_SMALL = 1e-6
"""What the authors' code adds to a bound that it divides by."""


def run_for_gram(model: Model, images: Any, ids: Sequence[str], *, seed: int) -> Columns:
    """Return a column for each block: the row sums of its Gram matrices, of all orders one after the other.

    Formula: sign(t) |t|^(1/p) with t = (F^p)(F^p)^T 1, F (channels, pixels) the block's output, or (channels, tokens).
    """
    import torch

    with exact_float32(), torch.inference_mode(), capture_outputs(model.module, model.layers, _row_sums) as captured:
        model.logits(images.to(model.device))
    return {f"block {number}": captured.blocks[name] for number, name in enumerate(model.layers.blocks, start=1)}


def _row_sums(module: Any, output: Any) -> Any:
    import torch

    # Of pixels or tokens, the channels are last or second; a vector has channels of one pixel.
    last = output.ndim == 3 or (output.ndim == 4 and channels_last(module))
    maps = output.flatten(1, -2).mT if last else output.reshape(*output.shape[:2], -1)
    sums = []
    for power in POWERS:
        raised = maps.double() ** power  # in float32 the fifth power of a sum overflows
        total = (raised @ raised.sum(dim=1, keepdim=True).mT)[:, :, 0]
        sums.append(total.sign() * total.abs() ** (1 / power))
    return torch.cat(sums, dim=1).float().cpu().numpy()


@dataclass
class Gram(ImageDetector):
    """Deviations of the Gram matrices of blocks from those of fitted rows of the predicted class.

    Formula: sum_l d_l / E d_l, with d_l the sum over orders and channels of block l of max(0, low - g) / |low + 1e-6|
    + max(0, g - high) / |high + 1e-6|: g is the row sum of the Gram matrix, see `run_for_gram`, low and high its least
    and greatest over the fitted rows of the predicted class, and E d_l the mean over a tenth of the rows of each
    class, which are not used for the bounds. Each fitted row takes 20 bytes a channel of the blocks in the store.
    Source: Sastry and Oore, Detecting Out-of-Distribution Examples with Gram Matrices, ICML 2020, section 3. They read
    each convolution and activation; the blocks' outputs are ours, and that E d_l is 1 if no row left out deviates.

    Args:
        seed: random seed of the rows that are left out.
    """

    name, title, source = "gram", "Gram", "Sastry and Oore 2020, section 3"
    compared = "pytorch-ood 0.4"
    image_pass = ImagePass(
        "gram", run_for_gram, random=False, check=lambda model: arrays.require_blocks(model.layers.blocks, Gram.name)
    )

    seed: int = 0

    def _inputs(self, features: Features) -> dict[str, Floats]:
        names = [f"block {number + 1}" for number in range(len(features.passed))]
        return {LOGITS: features.logits, **{f"gram matrices of {name}": features.passed[name] for name in names}}

    def _learn(self, features: Features) -> None:
        arrays.require_rows_of_each_class(features.labels, features.logits.shape[1], 1, self.name)
        left_out = _tenth_of_each_class(features, self.seed)
        _, *blocks = self._inputs(features).values()
        kept = np.flatnonzero(~left_out)
        kept = kept[np.argsort(features.labels[kept], kind="stable")]
        starts = np.searchsorted(features.labels[kept], np.arange(features.logits.shape[1]))
        self.bounds = [
            (np.minimum.reduceat(values[kept], starts), np.maximum.reduceat(values[kept], starts)) for values in blocks
        ]
        labels = features.labels[left_out]
        expected = [
            self._deviations(block, values[left_out], labels).sum() / max(1, len(labels))
            for block, values in enumerate(blocks)
        ]
        self.expected = [value if value > 0 else 1.0 for value in expected]

    def _deviations(self, block: int, values: Floats, classes: Integers) -> Scores:
        low, high = (bound[classes].astype(np.float64) for bound in self.bounds[block])
        below = np.maximum(low - values, 0.0) / np.abs(low + _SMALL)
        return (below + np.maximum(values - high, 0.0) / np.abs(high + _SMALL)).sum(axis=1)

    def _rows(self, logits: Doubles, *blocks: Doubles) -> Scores:
        classes = logits.argmax(axis=1)
        parts = [self._deviations(b, values, classes) / self.expected[b] for b, values in enumerate(blocks)]
        return np.sum(parts, axis=0)


def _tenth_of_each_class(features: Features, seed: int) -> npt.NDArray[np.bool_]:
    """Mark a tenth of the rows of each class, drawn by their ids, whatever their order."""
    random, marked = np.random.default_rng(seed), np.zeros(len(features), np.bool_)
    by_id = np.argsort(features.ids, kind="stable")
    for c in range(features.logits.shape[1]):
        own = by_id[features.labels[by_id] == c]
        marked[random.permutation(own)[: len(own) // 10]] = True
    return marked
