"""Outlines of 32 x 32 images: short vectors that are close for near-duplicates, which tell what to compare at all.

An outline is made of the 7 x 7 blocks of 4 x 4 pixels of a crop of 28 x 28. Its 84 values are the differences of mean
grey level between neighbouring blocks, downwards and then to the right, each as sign(t) sqrt(|t|), divided by
sqrt(max(84, sum of |t|)). So a vector has a length of at most 1, brightness and contrast do not affect it, and one
strong edge does not dominate it. The floor, one level a difference, keeps the noise of a nearly constant image small.

The *gap* of a query and a reference is the least Euclidean distance between the outline of the reference's centre crop
and those of 18 variants of the query: its crops with the upper left corner in row and column 0, 2 or 4, each as it is
and mirrored left to right.

Tested by `tests/builders/duplicates/test_search.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

GRID = 7
STEPS = 2 * GRID * (GRID - 1)
VARIANTS = 18
_BLOCK = 4
_CORNERS = (0, 2, 4)

# Integer units per level in the sum of three channels over a block.
_FLOOR = STEPS * 3 * _BLOCK**2

Images = npt.NDArray[np.uint8]
Vectors = npt.NDArray[np.float32]


def of_references(images: Images) -> Vectors:
    """Outlines of the centre crops of images (n, 32, 32, 3); shape (n, 84)."""
    return _outlines(_crop(_window_sums(images), 2, 2))


def of_variants(images: Images) -> Vectors:
    """Outlines of the variants of images (n, 32, 32, 3); shape (n, 18, 84)."""
    sums = _window_sums(images)
    return np.stack([_outlines(blocks) for blocks in _variants(sums)], axis=1)


def gaps(variants: Vectors, references: Vectors) -> npt.NDArray[np.float64]:
    """Gaps of k pairs, shape (k,), from outlines (k, 18, 84) and (k, 84)."""
    differences = variants.astype(np.float64) - references[:, None].astype(np.float64)
    found: npt.NDArray[np.float64] = np.sqrt(np.square(differences).sum(axis=2).min(axis=1))
    return found


def _variants(sums: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.int32]]:
    for y, x in itertools.product(_CORNERS, _CORNERS):
        blocks = _crop(sums, y, x)
        yield blocks
        yield blocks[:, :, ::-1]


def _window_sums(images: Images) -> npt.NDArray[np.int32]:
    """Sums of every 4 x 4 window over all channels: (n, 29, 29), by the upper left corner."""
    # Several times faster than `sum` over so short an axis.
    levels = images.astype(np.int32)
    sums = levels[..., 0] + levels[..., 1] + levels[..., 2]
    sums = sums[:, :-3] + sums[:, 1:-2] + sums[:, 2:-1] + sums[:, 3:]
    windows: npt.NDArray[np.int32] = sums[:, :, :-3] + sums[:, :, 1:-2] + sums[:, :, 2:-1] + sums[:, :, 3:]
    return windows


def _crop(windows: npt.NDArray[np.int32], y: int, x: int) -> npt.NDArray[np.int32]:
    """Block sums (n, 7, 7) of the crop at a corner."""
    return windows[:, y : y + GRID * _BLOCK : _BLOCK, x : x + GRID * _BLOCK : _BLOCK]


def _outlines(sums: npt.NDArray[np.int32]) -> Vectors:
    flat = (len(sums), STEPS // 2)
    steps = np.concatenate([np.diff(sums, axis=1).reshape(flat), np.diff(sums, axis=2).reshape(flat)], axis=1)
    sizes = np.abs(steps)
    lengths = np.sqrt(np.maximum(sizes.sum(axis=1, keepdims=True), _FLOOR).astype(np.float32))
    vectors: Vectors = np.copysign(np.sqrt(sizes.astype(np.float32)), steps.astype(np.float32)) / lengths
    return vectors
