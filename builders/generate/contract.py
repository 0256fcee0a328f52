"""The contract of generated images: what a generator declares, takes and returns.

Everything made goes through it: a resize, noise, a corruption, an attack, a diffusion model. A `Generator` is a value.
Builds cut its images into batches (`builders.generate.batches`) that any executor may run. What a row stores of an
image is the release's business.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from builders.errors import BuildError
from builders.executors.base import ONE_CORE, Resources
from builders.release.columns import Column, Value
from builders.release.entries import GeneratorEntry, Reproducible


@dataclass(frozen=True)
class Weights:
    """A file of weights that a generator reads: what to call it, and the SHA-256 of its bytes in lower-case hex."""

    name: str
    sha256: str

    def verified(self, path: Path) -> Path:
        """Return the path, if the file there has this digest.

        Raises:
            BuildError: it cannot be read, or has another one.
        """
        try:
            with path.open("rb") as opened:
                found = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise BuildError(f"Cannot read the weights {self.name} at {path}: {error.strerror}.") from error
        if found != self.sha256:
            raise BuildError(
                f"{path} does not hold the weights {self.name}: its SHA-256 is {found}, not {self.sha256}. Download "
                "it again."
            )
        return path


@dataclass(frozen=True)
class SourceImage:
    """The row that an image is made for, and the source image that it is made from.

    Args:
        id: the row's, such as `imagenet/val/ILSVRC2012_val_00000293.JPEG#fixed-resize-32`.
        class_id: the source's class.
        class_name: its name.
        image: decoded and upright, in whatever mode it has; None where the source has no images.
        data: the bytes that the source has of it; empty where it has none.
    """

    id: str
    class_id: str
    class_name: str
    image: Image.Image | None
    data: bytes = field(repr=False)

    @property
    def rgb(self) -> Image.Image:
        """The image in mode RGB.

        Raises:
            ValueError: the source has none.
        """
        if self.image is None:
            raise ValueError(f"{self.id} is to be made from an image of a source that has no images")
        # `convert` copies an image that is RGB already, which for a photograph takes as long as a resize.
        return self.image if self.image.mode == "RGB" else self.image.convert("RGB")


@dataclass(frozen=True)
class Generated:
    """An image that was made, or the reason why there is none.

    Args:
        pixels: RGB, shape (height, width, 3); None where there are none.
        values: of the generator's columns, by name.
        reason: a few words; empty where there are pixels.
    """

    pixels: npt.NDArray[np.uint8] | None
    values: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.pixels is None) is not bool(self.reason):
            raise ValueError("a generated image has either pixels or a reason why there are none")
        if self.pixels is not None and (self.pixels.dtype != np.uint8 or self.pixels.shape[2:] != (3,)):
            raise ValueError(f"expected RGB pixels of 8 bits, found {self.pixels.dtype} of shape {self.pixels.shape}")


Generate = Callable[[Sequence[SourceImage]], Sequence[Generated]]
"""Makes one image for each row that it is given, in their order."""


@dataclass(frozen=True)
class Generator:
    """How the images of a split are made.

    Version, parameters and weights are part of a release's identity: with others, batches are made anew, and a folder
    that was built with others is refused.

    Args:
        name: ends the rows' ids (`<source>/<source_id>#<name>`). Another recipe needs another name. Empty for images
            that are the source's own pixels.
        version: raised when the same parameters come to give other pixels or values.
        description: for the card.
        size: width and height of an image, by which its output is counted when batches and shards are cut. Where
            sizes differ, a typical one.
        start: sets the generator up, such as weights on a device, and returns what makes images. It is called once in
            each worker, with this value. A function of a module, so that it can be pickled.
        parameters: what the images depend on, by name.
        columns: columns that the rows get.
        resources: what making a batch occupies.
        weights: files that `start` reads.
        reproducible: whether the pixels are `exact` or `recorded`.
        together: how many images are given to a call at the most; all of them are in memory.

    Raises:
        ValueError: the name cannot stand in an id, or a size, number or column is not possible.
    """

    name: str
    version: int
    description: str
    size: tuple[int, int]
    start: Callable[[Generator], Generate]
    parameters: Mapping[str, Value] = field(default_factory=dict, hash=False)
    columns: tuple[Column, ...] = ()
    resources: Resources = ONE_CORE
    weights: tuple[Weights, ...] = ()
    reproducible: Reproducible = "exact"
    together: int = 1

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z0-9._-]*", self.name):
            raise ValueError(
                f"{self.name!r} cannot name a generator: use lower-case letters, digits, dots and hyphens."
            )
        if min(*self.size, self.together, self.version) < 1:
            raise ValueError(f"{self.name}: version, size and together are whole numbers from 1 on.")
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name} has two columns of one name: {', '.join(names)}.")

    def row_id(self, source_id: str) -> str:
        """The id of the row that is made from an image; `source_id` has its source in front."""
        return f"{source_id}#{self.name}" if self.name else source_id

    @property
    def nominal_bytes(self) -> int:
        """Bytes that one image counts when batches and shards are cut: its pixels, whatever an encoder makes of it."""
        return self.size[0] * self.size[1] * 3

    def entry(self) -> GeneratorEntry:
        """What the images follow from, beside their sources, as the manifest records it."""
        return GeneratorEntry(
            name=self.name,
            version=self.version,
            parameters=dict(self.parameters),
            weights={weights.name: weights.sha256 for weights in self.weights},
            reproducible=self.reproducible,
        )

    def identity(self) -> dict[str, object]:
        """The same by name, as the state records it."""
        return self.entry().identity()


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Describe in a few words each how the second of two identities of generators differs from the first."""
    ours, theirs = _flat(now), _flat(before)
    return [
        f"{name} {ours.get(name, 'not set')} instead of {theirs.get(name, 'not set')}"
        for name in sorted({*theirs, *ours})
        if ours.get(name) != theirs.get(name)
    ]


def _flat(identity: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in identity.items():
        found |= value if isinstance(value, Mapping) else {name: value}
    return found
