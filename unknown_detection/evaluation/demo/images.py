"""Images of the demo release: scikit-learn's digits, crops of its photographs, noise, and corrupted digits.

Tested by `tests/evaluation/demo/test_release.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

_BITMAP, _BLOCK = 32, 4
"""Maximum pixel value: digits were 32 x 32 bitmaps, and each pixel counts the dark ones in a 4 x 4 block."""

_NEARLY = 12.0
"""Maximum Euclidean distance of near-duplicate digits: about 1.5 of the 17 grey levels per pixel."""


@dataclass(frozen=True)
class DemoImages:
    """n images of one source, uint8 of shape (n, 8, 8), with the source's names and classes of each.

    `change` is the name of the change applied to them, or empty.
    """

    source: str
    names: Sequence[str]
    classes: Sequence[str]
    pixels: npt.NDArray[np.uint8]
    change: str = ""

    @property
    def ids(self) -> list[str]:
        """The id of each image in the release."""
        return ["/".join(part for part in (self.source, name, self.change) if part) for name in self.names]

    def take(self, chosen: Sequence[int]) -> DemoImages:
        """Select images by position, in the given order."""
        names, classes = ([values[number] for number in chosen] for values in (self.names, self.classes))
        return replace(self, names=names, classes=classes, pixels=self.pixels[list(chosen)])


def digits() -> DemoImages:
    """Return all 1,797 of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    data = load_digits()
    names = [f"{number:04d}" for number in range(len(data.target))]
    return DemoImages("sklearn-digits", names, [str(digit) for digit in data.target], _eight_bits(data.images / 16))


def crops(photograph: str, *, every: int) -> DemoImages:
    """Return square crops of a photograph in grey, reduced to 8 x 8 like the digits: the mean of each 4 x 4 block.

    Crops form a grid, row by row; one in `every` is returned.
    """
    from sklearn.datasets import load_sample_image

    grey = np.asarray(Image.fromarray(load_sample_image(photograph)).convert("L")) / 255
    height, width = (size // _BITMAP for size in grey.shape)
    side = _BITMAP // _BLOCK
    cut = grey[: height * _BITMAP, : width * _BITMAP].reshape(height, side, _BLOCK, width, side, _BLOCK)
    squares = cut.mean(axis=(2, 5)).transpose(0, 2, 1, 3).reshape(-1, side, side)
    names = [f"{photograph}/{row:02d}-{column:02d}" for row in range(height) for column in range(width)]
    classes = [photograph.removesuffix(".jpg")] * len(names)
    return DemoImages("sklearn-photographs", names, classes, _eight_bits(squares)).take(range(0, len(names), every))


def noise(count: int) -> DemoImages:
    """Return noise drawn from N(0.5, 1) and clipped to [0, 1], as `cifar/far_ood_gaussian` has it."""
    values = np.random.RandomState(0).normal(0.5, 1.0, (count, 8, 8))
    names = [f"{number:04d}" for number in range(count)]
    return DemoImages("noise", names, ["gaussian"] * count, _eight_bits(values.clip(0, 1)))


def noisy(images: DemoImages) -> DemoImages:
    """Add noise from N(0, 0.2) to pixels in [0, 1]."""
    values = images.pixels / 255 + np.random.RandomState(1).normal(0.0, 0.2, images.pixels.shape)
    return replace(images, pixels=_eight_bits(values.clip(0, 1)), change="gaussian_noise")


def blurred(images: DemoImages) -> DemoImages:
    """Blur images with the mean of each pixel and its eight neighbours."""
    padded = np.pad(images.pixels / 255, ((0, 0), (1, 1), (1, 1)), mode="edge")
    blurred = np.mean([padded[:, row : row + 8, column : column + 8] for row, column in np.ndindex(3, 3)], axis=0)
    return replace(images, pixels=_eight_bits(blurred), change="blur")


def deal(images: DemoImages, classes: Sequence[str], shares: Mapping[str, int]) -> dict[str, DemoImages]:
    """Divide the images of some classes into shares, with a given number per class and share.

    The assignment depends on digests of their names, not on a random generator.
    """
    dealt: dict[str, list[int]] = {share: [] for share in shares}
    for digit in classes:
        remaining = [number for number, name in enumerate(images.classes) if name == digit]
        remaining.sort(key=lambda number: hashlib.sha256(images.names[number].encode()).digest())
        for share, count in shares.items():
            dealt[share] += remaining[:count]
            remaining = remaining[count:]
    return {share: images.take(sorted(chosen)) for share, chosen in dealt.items()}


def near_pairs(images: DemoImages, train: DemoImages) -> Iterator[tuple[int, int, float]]:
    """Yield the number of each near-duplicate of a training image, that of the nearest one, and their distance."""
    levels = [of.pixels.reshape(len(of.names), -1) / 255 * 16 for of in (images, train)]
    for number, image in enumerate(levels[0]):
        distances = np.linalg.norm(levels[1] - image, axis=1)
        nearest = int(distances.argmin())
        if distances[nearest] <= _NEARLY:
            yield number, nearest, float(distances[nearest])


def _eight_bits(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint8]:
    rounded: npt.NDArray[np.uint8] = np.rint(values * 255).astype(np.uint8)
    return rounded
