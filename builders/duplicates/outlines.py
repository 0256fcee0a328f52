"""Outlines of 32 x 32 images: coarse shapes that hardly change when an image is compressed or becomes noisy.

All is computed from the 7 x 7 blocks of 4 x 4 pixels of a crop of 28 x 28. Let b[i, j, c] be the mean of channel c
over block (i, j), in levels from 0 to 255, and l[i, j] the mean of b[i, j, c] over the channels. The *outline* is the
vector of the 84 differences of l between neighbouring blocks, downwards and then to the right, each as
sign(t) sqrt(|t|), divided by sqrt(max(84, sum of |t|)). So it has a length of at most 1, brightness and contrast do
not affect it, and one strong edge does not dominate it. The floor, one level a difference, keeps the noise of a nearly
constant image small.

The *gap* of a query and a reference is the least Euclidean distance between the outline of the reference's centre crop
and those of 18 variants of the query: its crops with the upper left corner in row and column 0, 2 or 4, each as it is
and mirrored left to right. It tells which images to compare at all.

The *square* of a query and a reference is the least of P² + C² + w S² over fifty variants, with all corners from 0 to
4. Primes mark the reference's centre crop.

- P is the Euclidean distance of the two outlines.
- C² is the mean over the blocks of the squared length of u - u', where u[c] = b[i, j, c] - l[i, j], divided by 100²:
  the difference of colour. 100 levels let the contrast of saturated images change by a quarter.
- S² is the mean over blocks and channels of (b - b')², divided by 20², and w = max(0, 1 - r / 6). The roughness r, of
  the rougher of the two crops, is the mean of the 70 absolute second differences of l, downwards and to the right.
  Constant images and gradients have nothing that distinguishes two of them but their levels, so these must agree.

Sums of levels are integers. Tested by `tests/builders/duplicates/test_search.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

GRID = 7
STEPS = 2 * GRID * (GRID - 1)
ODD = (STEPS - (GRID - 1)) // 2
_BLOCK = 4
_CENTRE = 2
_CORNERS = (0, 2, 4)

# Integer units per level: in the sum of a channel over a block, and in that of three channels.
_CHANNEL_UNITS = _BLOCK**2
_UNITS = 3 * _CHANNEL_UNITS
_FLOOR = STEPS * _UNITS

_COLOUR_LEVELS = 100.0
_PLAIN_LEVELS = 20.0
_ROUGH_LEVELS = 6.0

Images = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.int32]
Vectors = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]


def of_references(images: Images) -> Vectors:
    """Return the outline of each reference image's centre crop, from images (n, 32, 32, 3); shape (n, 84)."""
    return _outlines(_crop(_window_sums(_greys(images)), _CENTRE, _CENTRE), np.float32).astype(np.float32, copy=False)


def of_crops(images: Images) -> Vectors:
    """Return the outlines of the 25 crops of each image (n, 32, 32, 3), not mirrored; shape (25, n, 84)."""
    crops = itertools.islice(_variants(_window_sums(_greys(images)), range(2 * _CENTRE + 1)), 0, None, 2)
    return np.stack([_outlines(blocks, np.float32) for blocks in crops]).astype(np.float32, copy=False)


def odd_and_even_axes(images: Images) -> Vectors:
    """Return principal axes (84, 84) of outlines of images and their mirror images: odd, then even ones, least first.

    Mirroring an image negates an outline's coordinates along the `ODD` odd axes, and leaves those along even ones.
    """
    down, right = np.arange(STEPS).reshape(2, -1)
    order = [down.reshape(GRID - 1, GRID)[:, ::-1], right.reshape(GRID, GRID - 1)[:, ::-1]]
    mirror = np.eye(STEPS)[np.concatenate(order, axis=None)] * np.repeat([1, -1], STEPS // 2)[:, None]
    vectors = of_references(images)
    moment = vectors.T @ vectors / max(1, len(vectors))
    # Eigenvalues of both moments are at most 2 in sum, so the last term separates those of odd and even axes.
    return np.linalg.eigh(moment + mirror @ moment @ mirror + 4 * mirror)[1].astype(np.float32)


def gaps(queries: Images, references: Images) -> Floats:
    """Return the gap of each of k pairs of images (k, 32, 32, 3), as the module defines it; shape (k,)."""
    centres = of_references(references).astype(np.float64)
    variants = (_outlines(blocks, np.float32) for blocks in _variants(_window_sums(_greys(queries)), _CORNERS))
    least: Floats = np.min([np.square(variant - centres).sum(axis=1) for variant in variants], axis=0)
    return np.sqrt(least)


def squares(queries: Images, references: Images) -> Floats:
    """Return the square of each of k pairs of images (k, 32, 32, 3), as the module defines it; shape (k,)."""
    centres = _crop(_window_sums(references.astype(np.int32)), _CENTRE, _CENTRE)
    variants = _variants(_window_sums(queries.astype(np.int32)), range(2 * _CENTRE + 1))
    greys = _greys(centres)
    outlines, roughness = _outlines(greys, np.float64), _roughness(greys)
    least: Floats = np.min([_squares(blocks, centres, outlines, roughness) for blocks in variants], axis=0)
    return least


def _squares(blocks: Sums, centres: Sums, outlines: npt.NDArray[np.floating], roughness: Floats) -> Floats:
    """Return P² + C² + w S² of k pairs of block sums (k, 7, 7, 3), for references with outlines and roughness."""
    greys, levels = _greys(blocks), blocks - centres
    sums: Floats = np.square(_outlines(greys, np.float64) - outlines).sum(axis=1)
    colours = 3 * levels - _greys(levels)[..., None]
    sums += _mean_square(colours, 1) / (_UNITS * _COLOUR_LEVELS) ** 2
    rough = np.maximum(_roughness(greys), roughness)
    plain = _mean_square(levels, 3) / (_CHANNEL_UNITS * _PLAIN_LEVELS) ** 2
    sums += np.maximum(0.0, 1.0 - rough / _ROUGH_LEVELS) * plain
    return sums


def _mean_square(blocks: Sums, channels: int) -> Floats:
    """Return sums of squares of each of k arrays (k, 7, 7, 3), a block and `channels` channels."""
    values = blocks.astype(np.int64)
    means: Floats = np.einsum("kijc,kijc->k", values, values) / (GRID**2 * channels)
    return means


def _roughness(greys: Sums) -> Floats:
    """Return mean absolute second difference of the grey sums (k, 7, 7), in levels."""
    bends = [np.abs(np.diff(greys, 2, axis=axis)).sum(axis=(1, 2)) for axis in (1, 2)]
    rough: Floats = (bends[0] + bends[1]) / (2 * GRID * (GRID - 2) * _UNITS)
    return rough


def _variants(sums: Sums, corners: Iterable[int]) -> Iterator[Sums]:
    for y, x in itertools.product(corners, repeat=2):
        blocks = _crop(sums, y, x)
        yield blocks
        yield blocks[:, :, ::-1]


def _greys(images: Images | Sums) -> Sums:
    """Return sums over the channels of images (n, 32, 32, 3) or blocks."""
    # Several times faster than `sum` over so short an axis.
    levels = images.astype(np.int32)
    return levels[..., 0] + levels[..., 1] + levels[..., 2]


def _window_sums(levels: Sums) -> Sums:
    """Return sums of every 4 x 4 window of levels (n, 32, 32, ...): (n, 29, 29, ...), by the upper left corner."""
    sums = levels[:, :-3] + levels[:, 1:-2] + levels[:, 2:-1] + levels[:, 3:]
    windows: Sums = sums[:, :, :-3] + sums[:, :, 1:-2] + sums[:, :, 2:-1] + sums[:, :, 3:]
    return windows


def _crop(windows: Sums, y: int, x: int) -> Sums:
    """Return block sums (n, 7, 7, ...) of the crop at a corner."""
    return windows[:, y : y + GRID * _BLOCK : _BLOCK, x : x + GRID * _BLOCK : _BLOCK]


def _outlines(sums: Sums, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    flat = (len(sums), STEPS // 2)
    steps = np.concatenate([np.diff(sums, axis=1).reshape(flat), np.diff(sums, axis=2).reshape(flat)], axis=1)
    sizes = np.abs(steps)
    lengths = np.sqrt(np.maximum(sizes.sum(axis=1, keepdims=True), _FLOOR).astype(dtype))
    vectors: npt.NDArray[np.floating] = np.copysign(np.sqrt(sizes.astype(dtype)), steps.astype(dtype)) / lengths
    return vectors
