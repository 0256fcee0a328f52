"""Makes photograph-like JPEGs of 300 to 500 pixels in class folders, few of which look alike.

Amplitudes of natural images fall as 1/f (Field 1987, "Relations between the statistics of natural images and the
response properties of cortical cells"). Each picture is drawn so in 48 x 48 points, enlarged, and covered with a part
of one fixed texture, so that its bytes are as many as those of a photograph.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

CLASSES = 50
"""Class folders of known images, and half as many of unknown ones (ours)."""

_POINTS, _TEXTURE, _QUALITY = 48, 600, 88


def _falling(random: np.random.Generator, side: int, channels: int) -> npt.NDArray[np.float64]:
    """Draw channels whose amplitudes fall as 1/f, from 0 to 1."""
    frequencies = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
    frequencies[0, 0] = np.inf
    noise = np.fft.rfft2(random.standard_normal((side, side, channels)), axes=(0, 1))
    drawn: npt.NDArray[np.float64] = np.fft.irfft2(noise / frequencies[:, :, None], (side, side), axes=(0, 1))
    low, high = drawn.min(axis=(0, 1)), drawn.max(axis=(0, 1))
    return (drawn - low) / (high - low)


@functools.cache
def _texture() -> npt.NDArray[np.int16]:
    random = np.random.default_rng(0)
    return (_falling(random, _TEXTURE, 1) * 40 + random.integers(0, 30, (_TEXTURE, _TEXTURE, 1)) - 35).astype(np.int16)


def photograph(number: int) -> Image.Image:
    """Return the picture with a number, always the same."""
    random = np.random.default_rng([41, number])
    # Channels of a photograph are alike: they share most of one drawing.
    shared, own = _falling(random, _POINTS, 1), _falling(random, _POINTS, 3)
    drawn = Image.fromarray(((0.7 * shared + 0.3 * own) * 255).astype(np.uint8))
    width, height = random.integers(300, 501, 2).tolist()
    left, top = random.integers(0, _TEXTURE - 500, 2).tolist()
    pixels = np.asarray(drawn.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    textured = pixels + _texture()[top : top + height, left : left + width]
    return Image.fromarray(np.clip(textured, 0, 255).astype(np.uint8))


def write_photographs(tree: Path, wnids: list[str], images: int) -> None:
    """Write pictures into `known` (three quarters) and `unknown`, in folders of the first wnids."""
    unknown = images // 4
    for part, count, folders, first in (
        ("known", images - unknown, wnids[:CLASSES], 0),
        ("unknown", unknown, wnids[CLASSES : CLASSES + CLASSES // 2], images - unknown),
    ):
        for wnid in folders:
            (tree / part / wnid).mkdir(parents=True)
        for number in range(count):
            wnid = folders[number % len(folders)]
            photograph(first + number).save(tree / part / wnid / f"{wnid}_{number}.JPEG", quality=_QUALITY)
