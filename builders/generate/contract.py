"""The interface of image generators: how they are declared, what they take and return, and the packages they need.

All generated images go through it: resizes, noise, corruptions, attacks, diffusion models. A `Generator` is a value.
A build cuts its images into batches (`builders.generate.batches`), which run on any executor. How a row stores an
image is up to the release.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from builders.errors import BuildError
from builders.executors.base import ONE_CORE, Resources
from builders.release.entries import GeneratorEntry, PreparationEntry, Reproducible
from builders.release.schema import PLACES, Column, Value
from builders.storage.files import open_buffered

if TYPE_CHECKING:  # declarations have generators, and a command's `--help` reads declarations alone
    import numpy as np
    import numpy.typing as npt
    from PIL import Image

    from builders.release.images import Stored


INSTALL = "pip install 'unknown-detection[generate]' (in a checkout: pip install -e '.[generate]')"


@dataclass(frozen=True)
class Weights:
    """A file of weights: its name in messages and manifests, its lower-case SHA-256, and its path on this machine."""

    name: str
    sha256: str
    path: Path = field(default=Path(), compare=False)

    @classmethod
    def of(cls, name: str, path: Path, advice: str) -> Weights:
        """Return the weights in a file, with its digest; if it cannot be read, the `BuildError` ends with `advice`."""
        try:
            with open_buffered(path) as opened:
                return cls(name, hashlib.file_digest(opened, "sha256").hexdigest(), path.absolute())
        except OSError as error:
            raise BuildError(f"Cannot read the weights {path}: {error.strerror}. {advice}") from error

    def verified(self) -> Path:
        """Return the path of the weights, after checking that the file still has the digest."""
        digest = Weights.of(self.name, self.path, "Put them there again.").sha256
        if digest != self.sha256:
            raise BuildError(
                f"{self.path} does not hold the weights {self.name}: its SHA-256 is {digest}, not {self.sha256}. "
                "Download it again."
            )
        return self.path


COMPANION_COLUMNS = tuple(f"companion_{name}" for name in PLACES if name != "form")
"""Columns of a plan whose generator takes companions: where their bytes lie."""

COMPANION_VALUE = "companion_value_"
"""Prefix of the columns of such a plan with the companions' values."""


@dataclass(frozen=True)
class Companion:
    """A published image that was made from a source image: its bytes, and its row's values by column."""

    data: bytes = field(repr=False)
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceImage:
    """The input of a generator: a row of the release, and the source image from which its image is made.

    `id` is such as `imagenet/val/ILSVRC2012_val_00000293.JPEG#fixed-resize-32`. `image` is the decoded image, upright,
    in its own mode; None if the source has no images or the generator takes companions. `data` are its bytes in the
    source. `companion` is what was published of an image that is made of this one, for a generator that takes
    companions or opens sealed residuals.
    """

    id: str
    class_id: str
    class_name: str
    image: Image.Image | None
    data: bytes = field(repr=False)
    companion: Companion | None = None

    @property
    def seed(self) -> int:
        """The seed of the row's random numbers, 0 to 2^63 - 1: the first 63 bits of the SHA-256 of its id."""
        return int.from_bytes(hashlib.sha256(self.id.encode()).digest()[:8], "big") >> 1

    @property
    def rgb(self) -> Image.Image:
        """The source image in mode RGB; `ValueError` if the source has no images."""
        if self.image is None:
            raise ValueError(f"{self.id} has no source image to be generated from")
        # `convert` copies an image that is RGB already, which for a photograph takes as long as a resize.
        return self.image if self.image.mode == "RGB" else self.image.convert("RGB")


@dataclass(frozen=True)
class Generated:
    """A generated image: its pixels and the values of the generator's columns.

    The pixels are uint8 (height, width, 3) in RGB, or (height, width) of grey.

    Without pixels, `reason` says in a few words why there are none, such as `NOT_FINITE`.
    """

    pixels: npt.NDArray[np.uint8] | None
    values: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.pixels is None) is not bool(self.reason):
            raise ValueError("a generated image has either pixels or a reason why there are none")
        if self.pixels is not None and (
            self.pixels.dtype != "uint8" or self.pixels.ndim < 2 or self.pixels.shape[2:] not in ((3,), ())
        ):
            raise ValueError(f"pixels must be uint8 (height, width[, 3]), not {self.pixels.dtype} {self.pixels.shape}")


NOT_FINITE = "the model gave numbers that are not finite"
"""The reason if a model computed no image: such numbers are no pixels, and casts would make black ones of them."""

Generate = Callable[[Sequence[SourceImage]], Sequence[Generated]]
"""Generates one image per row, in the order of the rows."""


@dataclass(frozen=True)
class EachImage:
    """The `start` of a generator that makes each image alone, and leaves out images that are too narrow."""

    make: Callable[[SourceImage], Generated]

    def __call__(self, _: Generator) -> Generate:
        """Return the function that makes images one after the other."""
        return self.make_all

    def make_all(self, images: Sequence[SourceImage]) -> list[Generated]:
        """Make some images, in the given order."""
        from builders.release.images import TooNarrowError

        generated = []
        for image in images:
            try:
                generated.append(self.make(image))
            except TooNarrowError as error:
                generated.append(Generated(None, reason=str(error)))
        return generated


@dataclass(frozen=True)
class Generator:
    """Declares how the images of a split are generated.

    Version, parameters and weights are part of a release's identity: if they change, batches are generated again, and
    a folder that was built with other ones is refused.

    Args:
        name: suffix of the rows' ids (`<source>/<source_id>#<name>`). Another recipe needs another name. Empty if the
            images have the source's own pixels.
        version: to be raised when equal parameters give other pixels or values than before.
        description: shown on the dataset card.
        size: width and height of an image, or typical ones, from which the cost of batches and shards is computed.
        start: sets the generator up (weights on a device, for example) and returns the function that generates
            images; called once per worker, with this value. Can be pickled.
        parameters: parameters that the images depend on, by name.
        columns: columns that the generator adds to the rows.
        resources: resources that a batch occupies.
        weights: files that `start` reads.
        reproducible: whether the pixels are `exact` or `recorded`.
        together: greatest number of images per call; all of them are in memory.
        companions: it takes another source's image, or a sealed residual, with the bytes of each source image, which
            is not decoded.
        stored: what the rows say of their bytes; a value whose digest is over pixels.
        prepared: side of the input of the models that the images are prepared for, all of which have this size;
            evaluations then neither resize nor crop them. 0 for ordinary pictures. Not part of the identity.
        sealed: the images may only be published as sealed residuals against their originals, which are prepared like
            this. The batch computes the value of the column `PREPARED_SHA256`, which is the last of `columns`.
        requires: packages of the extra `generate` that `start` imports, such as `imagecorruptions-imaug==1.1.5`.
        needs: what a user has to give before it can generate, as flags; empty if nothing is missing. Then neither its
            parameters nor its weights are final.
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
    companions: bool = False
    stored: Stored = "pixels"
    prepared: int = 0
    sealed: PreparationEntry | None = None
    requires: tuple[str, ...] = ()
    needs: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z0-9._-]*", self.name):
            raise ValueError(
                f"{self.name!r} cannot name a generator: use lower-case letters, digits, dots and hyphens."
            )
        if min(*self.size, self.together, self.version) < 1:
            raise ValueError(f"{self.name}: version, size and together must be at least 1.")

    def row_id(self, source_id: str) -> str:
        """Return the id of the row generated from an image; `source_id` begins with the source's key."""
        return f"{source_id}#{self.name}" if self.name else source_id

    @property
    def nominal_bytes(self) -> int:
        """The bytes that an image counts for when batches and shards are cut: those of its raw pixels."""
        return self.size[0] * self.size[1] * 3

    def __call__(self) -> Generate:
        """Set the generator up, for `once_per_worker`."""
        return self.start(self)

    def entry(self) -> GeneratorEntry:
        """Return the generator's entry in the manifest: all that its images depend on besides the sources."""
        return GeneratorEntry(
            name=self.name,
            version=self.version,
            parameters=dict(self.parameters),
            weights={weights.name: weights.sha256 for weights in self.weights},
            reproducible=self.reproducible,
            prepared=self.prepared,
            sealed=self.sealed,
        )

    def identity(self) -> dict[str, object]:
        """Return the settings that determine the images, as the state records them."""
        return self.entry().identity()

    @property
    def is_installed(self) -> bool:
        """Whether its packages are installed in the required versions."""
        return all(map(_installed, self.requires))


def identity_differences(expected: Mapping[str, object], actual: Mapping[str, object]) -> list[str]:
    """Describe in a few words each difference between a generator's identity and the expected one."""
    before, after = (
        {
            name: value
            for key, part in identity.items()
            for name, value in (part if isinstance(part, Mapping) else {key: part}).items()
        }
        for identity in (expected, actual)
    )
    return [
        f"{name} {after.get(name, 'not set')} instead of {before.get(name, 'not set')}"
        for name in sorted({*before, *after})
        if after.get(name) != before.get(name)
    ]


def not_installed(generators: Collection[Generator]) -> str:
    """Name in a phrase the packages that generators lack, such as "imagecorruptions-imaug 1.1.5 is not installed"."""
    needed = {package for generator in generators for package in generator.requires}
    missing = sorted(package.replace("==", " ") for package in needed if not _installed(package))
    return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"


def uninstalled_error(lacking: Mapping[str, Generator]) -> BuildError:
    """Return the error for generators, given by split key, of which packages are not installed."""
    return BuildError(
        f"{not_installed(lacking.values())}, but needed to generate {', '.join(lacking)}. Run {INSTALL}, or choose "
        "other splits."
    )


def check_installed(generators: Mapping[str, Generator]) -> None:
    """Raise `BuildError` if a package of some generators, given by split key, is not installed."""
    if lacking := {key: generator for key, generator in generators.items() if not generator.is_installed}:
        raise uninstalled_error(lacking)


def _installed(requirement: str) -> bool:
    name, _, version = requirement.partition("==")
    try:
        return importlib.metadata.version(name) == version or not version
    except importlib.metadata.PackageNotFoundError:
        return False


SIDE = 32
"""Width and height of every image of the CIFAR-scale benchmark, and of most arrays of pixels that sources have."""


def _unchanged(pixels: Image.Image, size: tuple[int, int]) -> Generated:
    """Return the pixels of an image unchanged, or a reason if it has another size than the arrays of its source."""
    import numpy as np

    if pixels.size != size:
        found, arrays = (f"{width} x {height}" for width, height in (pixels.size, size))
        return Generated(None, reason=f"it has {found} pixels instead of {arrays}")
    return Generated(np.asarray(pixels))


def _unchanged_rgb(image: SourceImage) -> Generated:
    return _unchanged(image.rgb, AS_PNG.size)


def _unchanged_grey(image: SourceImage) -> Generated:
    if image.image is None or image.image.mode != "L":
        return Generated(None, reason=f"it has the mode {image.image and image.image.mode} instead of grey (L)")
    return _unchanged(image.image, AS_GREY_PNG.size)


AS_PNG = Generator(
    name="",
    version=1,
    description="the source's own pixels as PNG",
    size=(SIDE, SIDE),
    start=EachImage(_unchanged_rgb),
)
"""The generator of sources with arrays. It is only called for images in files: arrays are read many at a time
(`builders.generate.task`)."""

AS_GREY_PNG = dataclasses.replace(AS_PNG, size=(28, 28), start=EachImage(_unchanged_grey))
"""The generator of MNIST's arrays, as `AS_PNG`."""

OF_ARRAYS: Mapping[tuple[int, ...], Generator] = {
    (*made.size, *rest): made for made, rest in ((AS_PNG, (3,)), (AS_GREY_PNG, ()))
}
"""The generator of a source with arrays by their shape (`builders.sources.base.Source.arrays`)."""
