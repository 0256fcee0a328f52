"""Gaussian noise, seeded by each row's id."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.generate.contract import SIDE, EachImage, Generated, Generator, SourceImage

_MEAN, _DEVIATION = 0.5, 1.0


def gaussian_noise(row_id: str) -> Image.Image:
    """Draw i.i.d. noise from N(0.5, 1) for each channel of each pixel, clipped to [0, 1]; 32 x 32, mode RGB.

    Kim et al. name Gaussian noise (section 3.1 and table 2) without its parameters. Mean and deviation are those of
    Abdelzad, Czarnecki and Salay, "The Effect of Optimization Methods on the Robustness of Out-of-Distribution
    Detection Approaches" (2020), section 4.1; that they hold here, too, and the size are ours.

    Random numbers come from NumPy's legacy `RandomState` (MT19937 and the polar method), whose stream is the same in
    every version (NEP 19). The seed follows from the row's id, so that images do not depend on each other. Values
    become 8-bit by `rint(255 * x)`.
    """
    return Image.fromarray(_pixels(row_id))


def _pixels(row_id: str) -> npt.NDArray[np.uint8]:
    noise = np.random.RandomState(seed_words(row_id)).normal(_MEAN, _DEVIATION, (SIDE, SIDE, 3))
    pixels: npt.NDArray[np.uint8] = np.rint(255 * np.clip(noise, 0, 1)).astype(np.uint8)
    return pixels


def seed_words(row_id: str) -> npt.NDArray[np.uint32]:
    """Return the SHA-256 of a row's id as eight 32-bit words."""
    return np.frombuffer(hashlib.sha256(row_id.encode()).digest(), dtype="<u4").astype(np.uint32)


def _noise(image: SourceImage) -> Generated:
    return Generated(_pixels(image.id))


GAUSSIAN_NOISE = Generator(
    name="gaussian-32",
    version=1,
    description="N(0.5, 1) for each channel, clipped to [0, 1], from NumPy's RandomState",
    size=(SIDE, SIDE),
    start=EachImage(_noise),
    parameters={"side": SIDE, "mean": _MEAN, "deviation": _DEVIATION},
)
