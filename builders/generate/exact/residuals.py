"""Opens the sealed residuals of a published split: the same images as its publisher's, from the originals' files.

Tested by `tests/builders/generate/test_sealed_release.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

from builders.errors import BuildError, one_line
from builders.executors.base import ONE_CORE
from builders.generate.contract import EachImage, Generate, Generated, Generator, SourceImage, Weights
from builders.generate.sealed import Original, open_row, prepare_original
from builders.release.entries import GeneratorEntry, PreparationEntry
from builders.release.images import TooNarrowError, UnreadableImageError, decode_or_mend
from builders.release.schema import PREPARED_SHA256

CONTENT = "content_sha256"
"""The value of a companion, besides those of the generator's columns, that an opened image is compared with."""


@dataclass(frozen=True)
class _Start:
    """The `start` of an opener; a value, so that a worker sets up equal ones once."""

    preparation: PreparationEntry

    def __call__(self, generator: Generator) -> Generate:
        return EachImage(functools.partial(open_image, self.preparation))(generator)


def residual_opener(declared: Generator, published: GeneratorEntry) -> Generator:
    """Return a generator that opens the published sealed residuals of a split instead of generating its images.

    It needs no more than the core install, and has the name, parameters and weights of the publisher's generator
    (`published`), because its images are those; all else is that of the generator of such images here (`declared`).
    It takes the sealed residuals and the rows' values as companions.

    Raises:
        BuildError: the publisher's generator has a name that none can have.
    """
    if published.sealed is None:
        raise AssertionError(f"{published.name} has no sealed residuals")
    side = published.sealed.size
    try:
        return dataclasses.replace(
            declared,
            name=published.name,
            version=published.version,
            size=(side, side),
            start=_Start(published.sealed),
            parameters=published.parameters,
            resources=ONE_CORE,
            weights=tuple(Weights(name, sha256) for name, sha256 in published.weights.items()),
            reproducible=published.reproducible,
            together=1,
            prepared=side,
            sealed=None,
            requires=(),
            needs="",
        )
    except ValueError as error:
        raise BuildError(
            f"The release names a generator that cannot be one: {one_line(error)} Fetch it again."
        ) from error


def open_image(preparation: PreparationEntry, image: SourceImage) -> Generated:
    """Open the sealed residual that accompanies an original's file, with the values of the published row.

    Raises:
        BuildError: the original is not the sealed one or has other pixels here, or the residual is damaged.
    """
    if image.companion is None:
        raise ValueError(f"{image.id} has no sealed residual")
    try:
        decoded, _ = decode_or_mend(image.data)
        prepared = prepare_original(dataclasses.replace(image, image=decoded).rgb, preparation)
    except (UnreadableImageError, TooNarrowError) as error:
        raise BuildError(
            f"The file given as the original of {one_line(image.id)} cannot be prepared ({error}). Give "
            "the owner's edition, with its files as they were downloaded."
        ) from error
    original = Original(image.id, image.data, prepared)
    values = dict(image.companion.values)
    digests = {CONTENT: str(values.pop(CONTENT)), PREPARED_SHA256.name: str(values[PREPARED_SHA256.name])}
    return Generated(open_row(image.companion.data, original, **digests), values)
