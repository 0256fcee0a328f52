"""A perceptual distance of two 32 x 32 images: 0 for a moved or mirrored copy, about 1 for images of different things.

The *centre crop* of the reference, rows and columns 2 to 29, is compared with fifty *variants* of the query: its 28 x
28 crops with the upper left corner in row y and column x, 0 <= x, y <= 4, each as it is and mirrored left to right. A
query that is the reference moved by up to two pixels has a variant equal to that centre crop, whatever filled the
edge. The distance is the minimum over the variants of sqrt(P² + C² + w S²). It is not symmetric: only the query is
moved.

All terms are computed from the 7 x 7 blocks of 4 x 4 pixels of a crop. Let b[i, j, c] be the mean of channel c over
block (i, j), in levels from 0 to 255, and l[i, j] the mean of b[i, j, c] over the three channels.

- P, the pattern. The 84 steps of a crop are the differences of l between neighbouring blocks, l[i + 1, j] - l[i, j]
  and l[i, j + 1] - l[i, j]. Each step t is turned into sign(t) sqrt(|t|), and all are divided by sqrt(max(84, sum of
  |t|)). P is the Euclidean distance of the two vectors of 84. A change of brightness does not affect the steps, and
  one of contrast scales them all, so neither changes P. The root keeps one strong outline from dominating. The floor,
  one level a step, keeps the noise of a nearly constant image small, which plain normalisation would amplify: such an
  image has a short vector, at a distance of about 1 from that of any image with content.
- C, the colour. C² is the mean over the blocks of the squared length of u - u', where u[c] = b[i, j, c] - l[i, j] is a
  block's deviation from grey and u' that of the other image, divided by 100². Brightness does not affect u; scaling
  the contrast by a changes it in proportion to |a - 1| and to saturation.
- S, the levels. S² is the mean over blocks and channels of (b - b')², divided by 20². Its weight is w = max(0, 1 - r /
  6). The roughness r, of the rougher of the two crops, is the mean of the 70 absolute second differences of l, |l[i -
  1, j] - 2 l[i, j] + l[i + 1, j]| and |l[i, j - 1] - 2 l[i, j] + l[i, j + 1]|. Constant images and smooth gradients
  have no detail that distinguishes two of them, so they must also agree in plain levels: for them brightness and
  contrast count. From a roughness of 6 levels on they do not.

Sums of levels stay integers, in units of 1/16 or 1/48 level, up to the last step, so that a distance has the same bits
however images are batched.

Tested by `tests/builders/duplicates/test_search.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

SIDE = 32
SHIFTS = 5
GRID = 7
STEPS = 2 * GRID * (GRID - 1)
CENTRE = (SHIFTS // 2, SHIFTS // 2)
_BLOCK = 4

# Integer units per level: in the sum of a channel over a block, and in the sum of all three channels.
_CHANNEL_UNITS = _BLOCK * _BLOCK
_ALL_UNITS = 3 * _CHANNEL_UNITS

# Chosen on the photographs that `builders.duplicates.search` lists with its threshold. One level a step is the noise
# that rounding and mild JPEG add to a constant image. 100 levels let the contrast of saturated images change by a
# quarter and still separate a red from a blue object. 20 levels make the threshold of 0.4 a difference of about 10 in
# smooth images. Of patches with a standard deviation above 25 levels, about one in a hundred has a roughness below 6.
_FLOOR = STEPS * _ALL_UNITS
_COLOUR_LEVELS = 100.0
_PLAIN_LEVELS = 20.0
_ROUGH_LEVELS = 6.0

Sums = npt.NDArray[np.int32]
_Int = TypeVar("_Int", bound=np.integer)


def scaled(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Pixels of an image in RGB and 32 x 32, uint8 (32, 32, 3).

    A larger image is averaged over boxes, and one that is not square loses its shape: copies of a picture in several
    sizes then look alike. The threshold of `builders.duplicates.search` was chosen on patches that were scaled, too.
    """
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    return np.asarray(rgb if rgb.size == (SIDE, SIDE) else rgb.resize((SIDE, SIDE), Image.Resampling.BOX))


def window_sums(images: npt.NDArray[np.uint8]) -> Sums:
    """Sum every 4 x 4 window of every channel.

    Args:
        images: (n, 32, 32, 3).

    Returns:
        (n, 29, 29, 3), by the upper left corner of the window.
    """
    sums = images.astype(np.int32)
    sums = sums[:, :-3] + sums[:, 1:-2] + sums[:, 2:-1] + sums[:, 3:]
    return sums[:, :, :-3] + sums[:, :, 1:-2] + sums[:, :, 2:-1] + sums[:, :, 3:]


def crop(windows: Sums, corner: tuple[int, int]) -> Sums:
    """Return the block sums of the 28 x 28 crop at a corner (y, x): (n, 7, 7, ...) of the windows (n, 29, 29, ...)."""
    y, x = corner
    return windows[:, y : y + GRID * _BLOCK : _BLOCK, x : x + GRID * _BLOCK : _BLOCK]


def variants(windows: Sums) -> Iterator[Sums]:
    """Yield the block sums of the fifty variants of a query: y, then x, then as it is and mirrored."""
    for y in range(SHIFTS):
        for x in range(SHIFTS):
            blocks = crop(windows, (y, x))
            yield blocks
            yield blocks[:, :, ::-1]


def totals(blocks: npt.NDArray[_Int]) -> npt.NDArray[_Int]:
    """Sum over the three channels, the last axis."""
    # Several times faster than `sum` over so short an axis.
    added: npt.NDArray[_Int] = blocks[..., 0] + blocks[..., 1] + blocks[..., 2]
    return added


def steps(sums: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the 84 differences of neighbouring blocks, in 1/48 level.

    Args:
        sums: (..., 7, 7) totals of blocks.

    Returns:
        (..., 84), down and then right.
    """
    flat = (*sums.shape[:-2], STEPS // 2)
    down, right = np.diff(sums, axis=-2), np.diff(sums, axis=-1)
    return np.concatenate([down.reshape(flat), right.reshape(flat)], axis=-1)


def patterns(differences: npt.NDArray[np.int32], dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    """Return the vectors whose Euclidean distance is P; their length is at most 1.

    Args:
        differences: (..., 84), from `steps`.
        dtype: float64 for the distance, float32 for a search with slack for rounding.

    Returns:
        (..., 84).
    """
    sizes = np.abs(differences)
    lengths = np.sqrt(np.maximum(sizes.sum(axis=-1, keepdims=True), _FLOOR).astype(dtype))
    vectors: npt.NDArray[np.floating] = np.copysign(np.sqrt(sizes.astype(dtype)), differences.astype(dtype)) / lengths
    return vectors


def squared_distances(queries: Sums, references: Sums) -> npt.NDArray[np.float64]:
    """Return P² + C² + w S² of k pairs of crops.

    Args:
        queries: (k, 7, 7, 3) block sums of one variant each.
        references: (k, 7, 7, 3) block sums of centre crops, or (1, 7, 7, 3) for one reference.
    """
    query_totals, reference_totals = totals(queries), totals(references)
    pattern = patterns(steps(query_totals), np.float64) - patterns(steps(reference_totals), np.float64)
    levels = (queries - references).astype(np.int64)
    # The deviation from grey, times 3 to stay an integer, in the unit of the totals.
    colour = 3 * levels - totals(levels)[..., None]
    squares = np.square(pattern).sum(axis=1)
    squares += _sum_of_squares(colour) / (GRID * GRID * (_ALL_UNITS * _COLOUR_LEVELS) ** 2)
    rough = np.maximum(_roughness(query_totals), _roughness(reference_totals))
    weight = np.maximum(0.0, 1.0 - rough / _ROUGH_LEVELS)
    plain = _sum_of_squares(levels) / (3 * GRID * GRID * (_CHANNEL_UNITS * _PLAIN_LEVELS) ** 2)
    total: npt.NDArray[np.float64] = squares + weight * plain
    return total


def distance(query: npt.NDArray[np.uint8], reference: npt.NDArray[np.uint8]) -> float:
    """Return the distance of one pair of images.

    Args:
        query: (32, 32, 3), the image that is moved and mirrored.
        reference: (32, 32, 3).

    Raises:
        ValueError: an image of another shape or type.
    """
    check_images("query", query, ndim=3)
    check_images("reference", reference, ndim=3)
    centre = crop(window_sums(reference[None]), CENTRE)
    moved = np.concatenate(list(variants(window_sums(query[None]))))
    return float(np.sqrt(squared_distances(moved, centre).min()))


def check_images(name: str, images: npt.NDArray[np.uint8], *, ndim: int) -> None:
    """Refuse arrays other than 32 x 32 RGB images of uint8.

    Raises:
        ValueError: an array of another shape or type.
    """
    if images.dtype != np.uint8 or images.ndim != ndim or images.shape[-3:] != (SIDE, SIDE, 3):
        wanted = ", ".join(["n"] * (ndim - 3) + [str(SIDE), str(SIDE), "3"])
        raise ValueError(f"{name} must be a uint8 array ({wanted}), not {images.dtype} {images.shape}")


def _roughness(sums: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """Mean absolute second difference of the totals (k, 7, 7), in levels."""
    down, right = np.abs(np.diff(sums, 2, axis=1)), np.abs(np.diff(sums, 2, axis=2))
    rough: npt.NDArray[np.float64] = (down.sum(axis=(1, 2)) + right.sum(axis=(1, 2))) / (
        2 * GRID * (GRID - 2) * _ALL_UNITS
    )
    return rough


def _sum_of_squares(blocks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sum of squares of each of k integer arrays (k, 7, 7, 3)."""
    sums: npt.NDArray[np.int64] = np.einsum("kijc,kijc->k", blocks, blocks)
    return sums
