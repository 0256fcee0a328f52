"""A perceptual distance of two 32 x 32 images: nearly 0 for copies of one image, about 1 for different things.

It is made of two parts, the distance of the images' detail and that of their outlines.

The *detail* of an image is, in each channel, the difference of two blurred copies of it, with Gaussians of sigma 0.8
and 2.5 pixels and the edge repeated, divided by its contrast nearby: the square root of the mean square of the three
channels' differences, blurred with sigma 4, plus 8² levels². Brightness and shades that change slowly are not in it,
nor is the noise of single pixels, and one strong outline counts no more than the texture beside it.

The centre of the reference's detail, 22 x 22 pixels, is compared with 490 *windows* of the query: the query is taken
as it is and mirrored left to right, enlarged or reduced by five factors about its middle, and moved by up to three
pixels down and right. The similarity of two windows a and b is the cosine of their 1,452 values, with a floor that
keeps two constant images from being alike:

    sum(a b) / sqrt((sum(a²) + e) (sum(b²) + e)),  e = 1,452 / 64²

The distance D of detail is 1 less the greatest similarity. The distance O of outlines is 0.6 times the square that
`builders.duplicates.outlines.squares` defines, which stays small after compression and noise. How they are joined
depends on how much detail there is. The *contrast* of an image is the root mean square of the difference of its
blurred copies over the three channels and the centre, before it is divided; that of a pair is the lesser of the two.

- D is multiplied by (10 / contrast)² if the contrast is less than 10 levels. The detail may then be one faint edge,
  which different skies share.
- O counts if the contrast is at most 13 levels, where compression and noise outweigh the detail, or if D alone is at
  most 0.13. So images of one outline and different textures are not alike.

The distance is D, or O if that counts and is less, and at least `LEAST`, also for equal images: a table has 0 for
equal pixels, which digests find. It is not symmetric: only the query is moved. A change of brightness or contrast
hardly changes it.

`docs/benchmarks/duplicates.md` has its precision and recall. Tested by `tests/builders/duplicates/test_search.py`.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.duplicates import outlines
from builders.release.images import resized

SIDE = 32
MOVES = 3
MARGIN = 5
WINDOW = SIDE - 2 * MARGIN

# Near-duplicates of CIFAR are often the same photograph cut out a little wider or narrower; a step of 8 % is about a
# pixel at the edge of the window. The sigmas, and the reach and the floor of the contrast, are the best of a few on
# CIFAR-100's judged pairs (`benchmarks.duplicates.cifair`). The floor of the cosine stands for an eighth of a level,
# less than rounding leaves in any image that is not constant.
SCALES = (0.86, 0.92, 1.0, 1.08, 1.16)
_MOVED = slice(MARGIN - MOVES, MOVES - MARGIN)
_SIGMAS = (0.8, 2.5)
_CONTRAST_SIGMA = 4.0
_CONTRAST_FLOOR = 8.0
FLOOR = 3 * WINDOW**2 / 64**2

# The weight gives a square of 0.4² the distance of `builders.duplicates.search.THRESHOLD`. The limits were chosen with
# that, on half 0 of CIFAR-100's judged pairs and on changed copies of photographs. From 9 to 11, from 12.5 to 13 and
# from 0.125 to 0.135 they find the same but for four pairs in four hundred.
OUTLINE_WEIGHT = 0.6
FAINT = 10.0
RICH = 13.0
AGREEING = 0.13

LEAST = 1e-6

Images = npt.NDArray[np.uint8]
Details = npt.NDArray[np.floating]
Floats64 = npt.NDArray[np.float64]


def scaled(image: Image.Image) -> Images:
    """Return an image as RGB pixels of 32 x 32, uint8 (32, 32, 3).

    A larger image is averaged over boxes, and one that is not square loses its shape: copies of a picture in several
    sizes then look alike.
    """
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    return np.asarray(rgb if rgb.size == (SIDE, SIDE) else resized(rgb, (SIDE, SIDE), Image.Resampling.BOX))


def details(images: Images, scale: float, dtype: npt.DTypeLike) -> Details:
    """Return the detail of images (n, 32, 32, 3), enlarged by a factor first; shape (n, 3, 32, 32)."""
    differences = _differences(images, scale, dtype)
    nearby = _NEARBY.astype(dtype)
    squares = nearby @ np.square(differences).mean(axis=1, keepdims=True) @ nearby.T
    differences /= np.sqrt(squares + _CONTRAST_FLOOR**2)
    return differences


def contrasts(images: Images) -> Floats64:
    """Return the contrast of each image (n, 32, 32, 3), in levels; shape (n,)."""
    centres = _differences(images, 1.0, np.float64)[:, :, MARGIN:-MARGIN, MARGIN:-MARGIN]
    levels: Floats64 = np.sqrt(np.square(centres).mean(axis=(1, 2, 3)))
    return levels


def scarcity(contrast: npt.ArrayLike) -> Floats64:
    """Return the factor by which D is multiplied for a pair of this contrast, in levels."""
    return np.square(FAINT / np.clip(contrast, LEAST, FAINT))


def outline_distances(queries: Images, references: Images) -> Floats64:
    """Return O, the distance of outlines, of k pairs of images (k, 32, 32, 3); shape (k,)."""
    return OUTLINE_WEIGHT * outlines.squares(queries, references)


def distance(query: Images, reference: Images) -> float:
    """Return the distance of two images, (32, 32, 3) each; the query is moved, scaled and mirrored."""
    return float(distances(query[None], reference[None])[0])


def distances(queries: Images, references: Images) -> Floats64:
    """Return the distances of k pairs of images (k, 32, 32, 3), shape (k,); other pairs do not affect a distance."""
    contrast = np.minimum(contrasts(queries), contrasts(references))
    by_detail = np.array([_detail_distance(*pair) for pair in zip(queries, references, strict=True)])
    shortest = by_detail * scarcity(contrast)
    shaped = np.flatnonzero((contrast <= RICH) | (by_detail <= AGREEING))
    shortest[shaped] = np.minimum(shortest[shaped], outline_distances(queries[shaped], references[shaped]))
    return np.maximum(LEAST, shortest)


def _detail_distance(query: Images, reference: Images) -> float:
    windows, lengths = _windows(query.tobytes())
    centre = details(reference[None], 1.0, np.float64)[0, :, MARGIN:-MARGIN, MARGIN:-MARGIN]
    # A mirrored query's windows have the inner products of the query's with the mirrored centre.
    centres = np.stack([centre, centre[:, :, ::-1]]).reshape(2, -1)
    similarities = windows @ centres.T / np.sqrt(lengths * (np.square(centre).sum() + FLOOR))[:, None]
    return 1.0 - float(similarities.max())


@functools.lru_cache(maxsize=1)  # pairs come by query
def _windows(query: bytes) -> tuple[Floats64, Floats64]:
    """Return the 245 windows of a query that is not mirrored, (245, 1452), and their squared lengths."""
    image = np.frombuffer(query, np.uint8).reshape(1, SIDE, SIDE, 3)
    moved = np.concatenate([details(image, scale, np.float64) for scale in SCALES])[:, :, _MOVED, _MOVED]
    windows = np.lib.stride_tricks.sliding_window_view(moved, (WINDOW, WINDOW), axis=(2, 3))
    flat: Floats64 = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 3 * WINDOW**2)
    return flat, np.einsum("wi,wi->w", flat, flat) + FLOOR


def _differences(images: Images, scale: float, dtype: npt.DTypeLike) -> Details:
    """Return differences of the two blurred copies of images (n, 32, 32, 3); shape (n, 3, 32, 32), in levels."""
    channels = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype)
    fine, coarse = (matrix.astype(dtype) for matrix in _FILTERS[scale])
    differences: Details = fine @ channels @ fine.T - coarse @ channels @ coarse.T
    return differences


def _filters(scale: float) -> tuple[Floats64, Floats64]:
    """Return the matrices that enlarge a column of 32 pixels about its middle, linearly, and then blur it."""
    middle = (SIDE - 1) / 2
    positions = np.clip(middle + (np.arange(SIDE) - middle) / scale, 0, SIDE - 1)
    enlarge = np.maximum(0, 1 - np.abs(positions[:, None] - np.arange(SIDE)))
    fine, coarse = (_blur(sigma) @ enlarge for sigma in _SIGMAS)
    return fine, coarse


def _blur(sigma: float) -> Floats64:
    """Return the matrix of a Gaussian blur of 32 pixels whose first and last are repeated, cut off at four sigmas."""
    reach = round(4 * sigma)
    matrix = np.zeros((SIDE, SIDE))
    for offset in range(-reach, reach + 1):
        positions = np.clip(np.arange(SIDE) + offset, 0, SIDE - 1)
        matrix[np.arange(SIDE), positions] += np.exp(-((offset / sigma) ** 2) / 2)
    normalised: Floats64 = matrix / matrix.sum(axis=1, keepdims=True)
    return normalised


_FILTERS = {scale: _filters(scale) for scale in SCALES}
_NEARBY = _blur(_CONTRAST_SIGMA)
