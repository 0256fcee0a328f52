"""The corruptions of ImageNet-C that the library defines otherwise: frost and elastic transform.

The library enlarges its six photographs of frost by a tenth, where ImageNet-C cuts 224 x 224 pixels out of the first
five as they are, and its elastic transform has other strengths and no affine part. With the same random numbers, its
frost is 11 to 29 levels from ImageNet-C's, and its elastic transform 15 to 44. The numbers here are those of the
authors' published code (hendrycks/robustness, `make_imagenet_c.py`), and so is the order of draws.

Each takes a 224 x 224 image in RGB and draws from NumPy's global random state; returns numbers of 0 to 255. Sums are
written out or SciPy's, so that they do not depend on the CPU.

Tested by `tests/builders/generate/exact/test_corruptions.py`.
"""

from __future__ import annotations

import importlib.resources
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Samples = npt.NDArray[np.floating[Any]]

_PHOTOGRAPHS = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
"""The authors' program has six, and draws from the first five."""

_FROST = ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))
"""Portions of image and frost, by severity."""

_ELASTIC = (
    *((244 * 2, 244 * 0.7, 244 * 0.1), (244 * 2, 244 * 0.08, 244 * 0.2), (244 * 0.05, 244 * 0.01, 244 * 0.02)),
    *((244 * 0.07, 244 * 0.01, 244 * 0.02), (244 * 0.12, 244 * 0.01, 244 * 0.02)),
)
"""Strength and smoothness of the displacement, and the greatest move of a corner, in pixels; 244 is the authors'."""


def frost(image: Image.Image, severity: int) -> Samples:
    """Lay a piece of a photograph of frost on a darkened image."""
    own, layer = _FROST[severity - 1]
    name = _PHOTOGRAPHS[np.random.randint(len(_PHOTOGRAPHS))]
    with (importlib.resources.files("imagecorruptions") / "frost" / name).open("rb") as opened:
        photograph = np.asarray(Image.open(opened).convert("RGB"))
    width, height = image.size
    top = np.random.randint(0, photograph.shape[0] - height)
    left = np.random.randint(0, photograph.shape[1] - width)
    return np.clip(own * np.asarray(image) + layer * photograph[top : top + height, left : left + width], 0, 255)


def elastic_transform(image: Image.Image, severity: int) -> Samples:
    """Move three corners of an image at random, and then each pixel by a smooth random field.

    OpenCV, which moved the corners of ImageNet-C's images, placed samples to a 32nd of a pixel; these are exact.
    """
    from scipy import ndimage

    strength, smoothness, most = _ELASTIC[severity - 1]
    pixels = np.asarray(image, np.float32) / np.float32(255)
    rows, columns = np.mgrid[: pixels.shape[0], : pixels.shape[1]].astype(np.float64)
    middle, reach = pixels.shape[0] // 2, pixels.shape[0] // 3
    corners = np.array([(1, 1), (1, -1), (-1, -1)]) * reach + middle  # as (x, y)
    moved = (corners + np.random.uniform(-most, most, corners.shape).astype(np.float32)).astype(np.float32)
    moved = moved.astype(np.float64)
    # The map of corners to moved ones: columns of its matrix, and its inverse at each pixel of the result.
    (ax, ay), (bx, by) = (moved[1] - moved[2]) / (2 * reach), (moved[0] - moved[1]) / (2 * reach)
    x, y, area = columns - moved[0, 0], rows - moved[0, 1], ax * by - bx * ay
    places = (ax * y - ay * x) / area + corners[0, 1], (by * x - bx * y) / area + corners[0, 0]
    pixels = _sampled(pixels, places, "mirror")
    fields = [np.random.uniform(-1, 1, rows.shape) for _ in range(2)]
    across, down = (
        (ndimage.gaussian_filter(field, smoothness, mode="reflect", truncate=3) * strength).astype(np.float32)
        for field in fields
    )
    return np.clip(_sampled(pixels, (rows + down, columns + across), "reflect"), 0, 1) * 255


def _sampled(pixels: Samples, places: tuple[Samples, Samples], edge: str) -> Samples:
    """Read pixels between others, linearly; `edge` says how SciPy continues the image."""
    from scipy import ndimage

    channels = [ndimage.map_coordinates(pixels[..., channel], places, order=1, mode=edge) for channel in range(3)]
    return np.stack(channels, axis=-1)
