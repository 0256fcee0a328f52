"""Gaussian noise, drawn from each row's id.

Tested by `tests/builders/generate/test_transform.py`.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.generate.transform import SIDE, Transform


def gaussian_noise(row_id: str) -> Image.Image:
    """Draw i.i.d. noise from N(0.5, 1) for each channel of each pixel, clipped to [0, 1]; Kim et al., table 2.

    The generator is NumPy's legacy `RandomState` (MT19937 and the polar method), which is frozen: its stream stays
    the same in every version (NEP 19). Its seed is the SHA-256 of the row's id as eight 32-bit words, so one row's
    image needs no other. Values become 8-bit by `rint(255 * x)`.

    Args:
        row_id: such as `noise/00042#gaussian-32`.

    Returns:
        32 x 32, mode RGB.
    """
    words = np.frombuffer(hashlib.sha256(row_id.encode()).digest(), dtype="<u4")
    drawn = np.random.RandomState(words).normal(0.5, 1.0, (SIDE, SIDE, 3))
    pixels: npt.NDArray[np.uint8] = np.rint(255 * np.clip(drawn, 0, 1)).astype(np.uint8)
    return Image.fromarray(pixels)


def _apply_noise(_: Image.Image | None, row_id: str) -> Image.Image:
    return gaussian_noise(row_id)


GAUSSIAN_NOISE = Transform(
    "gaussian-32",
    "N(0.5, 1) for each channel, clipped to [0, 1], from NumPy's RandomState",
    (SIDE, SIDE),
    _apply_noise,
)
