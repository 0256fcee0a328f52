"""Draws images of 32 x 32 pixels for the demo's array sources, many at a time and in integer arithmetic.

Integers give the same pixels on every machine and with every version of a library.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.demo.images import encode_image

Pixels = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

SIZE = 32

_BROAD, _FINE = 5, 12
"""Points along a side of the grids from which a scene's colours and its details are interpolated."""

_DISCS = 3
_SCENE_BYTES = _BROAD * _BROAD * 4 + _FINE * _FINE + _DISCS * 7

# The seven segments of a digit in a box of 12 x 20 pixels, as (top, bottom, left, right), and the lit ones by digit.
_SEGMENTS = (
    (0, 3, 0, 12),
    (0, 11, 9, 12),
    (9, 20, 9, 12),
    (17, 20, 0, 12),
    (9, 20, 0, 3),
    (0, 11, 0, 3),
    (9, 12, 0, 12),
)
_LIT = ("012345", "12", "01346", "01236", "1256", "02356", "023456", "012", "0123456", "012356")


def draw_scenes(of_classes: Sequence[bytes], of_images: Sequence[bytes]) -> Pixels:
    """Draw images whose classes have nothing in common but a mark; n x 32 x 32 x 3.

    `of_classes` has at least 4 bytes an image, the same for all images of a class: the mark's colour and shape.
    `of_images` are the seeds of each image's areas of colour, three discs (one is the mark) and details.
    """
    bits = _bytes(of_images, _SCENE_BYTES)
    marks = np.array([tuple(of_class[:4]) for of_class in of_classes], dtype=np.int64).reshape(-1, 4)
    broad, fine, discs = np.split(bits, [_BROAD * _BROAD * 4, _SCENE_BYTES - _DISCS * 7], axis=1)
    areas = broad.reshape(-1, _BROAD, _BROAD, 4)
    pixels = _smooth(2 * areas[..., :1] + areas[..., 1:]) // 3  # channels go together, as in photographs
    for number, disc in enumerate(np.split(discs, _DISCS, axis=1)):
        is_mark = number == _DISCS - 1
        inside = _inside(disc, marks[:, 3] % 3 if is_mark else disc[:, 6] % 3)
        colour = marks[:, :3] if is_mark else disc[:, 3:6]
        pixels = np.where(inside[..., None], colour[:, None, None], pixels)
    details = _smooth(fine.reshape(-1, _FINE, _FINE, 1)) - 128
    drawn: Pixels = np.clip(pixels + details // 4, 0, 255).astype(np.uint8)
    return drawn


def draw_digits(of_images: Sequence[bytes], digits: Sequence[int]) -> Pixels:
    """Draw one seven-segment digit an image, near the middle of a wall; n x 32 x 32 x 3."""
    bits = _bytes(of_images, 8 + 2 * 2 * 3)
    pixels = _smooth(bits[:, 8:].reshape(-1, 2, 2, 3)) // 2 + 64
    for number, digit in enumerate(digits):
        top, left = 2 + bits[number, 0] % 9, 6 + bits[number, 1] % 9
        colour = bits[number, 2:5] // 4 + 192 * (bits[number, 5] % 2)
        for segment in _LIT[digit]:
            y0, y1, x0, x1 = _SEGMENTS[int(segment)]
            pixels[number, top + y0 : top + y1, left + x0 : left + x1] = colour
    return pixels.astype(np.uint8)


def _bytes(seeds: Sequence[bytes], count: int) -> Ints:
    """Derive `count` numbers below 256 from each seed."""
    joined = b"".join(hashlib.shake_256(seed).digest(count) for seed in seeds)
    return np.frombuffer(joined, np.uint8).reshape(len(seeds), count).astype(np.int64)


def _smooth(grids: Ints) -> Ints:
    """Interpolate n x k x k x c linearly to n x 32 x 32 x c."""
    points = grids.shape[1]
    place, remainder = np.divmod(np.arange(SIZE) * (points - 1), SIZE - 1)
    weights = np.zeros((SIZE, points), dtype=np.int64)
    weights[np.arange(SIZE), place] = SIZE - 1 - remainder
    weights[np.arange(SIZE), np.minimum(place + 1, points - 1)] += remainder
    down = np.moveaxis(np.tensordot(grids, weights, axes=(1, 1)), -1, 1)
    across = np.moveaxis(np.tensordot(down, weights, axes=(2, 1)), -1, 2)
    return across // (SIZE - 1) ** 2


def _inside(disc: Ints, shape: Ints) -> npt.NDArray[np.bool_]:
    """Return the mask of the pixels in a disc of given place, radius and shape: round, square or diamond."""
    y = np.abs(np.arange(SIZE)[None, :, None] - (4 + disc[:, 0] % 24)[:, None, None])
    x = np.abs(np.arange(SIZE)[None, None, :] - (4 + disc[:, 1] % 24)[:, None, None])
    radius = (4 + disc[:, 2] % 7)[:, None, None]
    choices = [x * x + y * y <= radius * radius, np.maximum(x, y) < radius, x + y <= radius]
    return np.select([shape[:, None, None] == number for number in range(3)], choices)


def _recompressed(image: Pixels) -> Pixels:
    encoded = encode_image(Image.fromarray(image), "JPEG", quality=75)
    return np.asarray(Image.open(io.BytesIO(encoded)))


CHANGES: Mapping[str, Callable[[Pixels], Pixels]] = {
    # One pixel down and two to the right; the edges repeat.
    "shifted": lambda image: np.pad(image, ((1, 0), (2, 0), (0, 0)), mode="edge")[:SIZE, :SIZE],
    # A fifth less contrast, and a tenth of the range more.
    "brighter": lambda image: (image.astype(np.int64) * 4 // 5 + 26).clip(0, 255).astype(np.uint8),
    "mirrored": lambda image: image[:, ::-1],
    "jpeg": _recompressed,
}
"""Ways to make a near-duplicate of an image, by name."""
