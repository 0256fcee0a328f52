"""A transform: a named function that makes a row's image from a source image and the row's id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

SIDE = 32
"""Width and height of every image of the CIFAR-scale benchmark."""


@dataclass(frozen=True)
class Transform:
    """How a row's image is made.

    `name` ends the row's id (`<source>/<source_id>#<name>`) and is part of the format: another recipe is another name.
    An empty name marks images that are the source's own pixels. `apply` takes the source's image (upright, in whatever
    mode it has; None where the source has none) and the row's id, and makes an RGB image of `size` (width, height).
    """

    name: str
    description: str
    size: tuple[int, int]
    apply: Callable[[Image.Image | None, str], Image.Image]

    def row_id(self, source_id: str) -> str:
        """The id of the row that is made from an image; `source_id` has its source in front."""
        return f"{source_id}#{self.name}" if self.name else source_id

    @property
    def nominal_bytes(self) -> int:
        """Bytes that one made image counts when shards are cut: its pixels, which do not depend on an encoder."""
        return self.size[0] * self.size[1] * 3


def _apply_nothing(image: Image.Image | None, _: str) -> Image.Image:
    return as_rgb(source_image(image))


def as_rgb(image: Image.Image) -> Image.Image:
    """The image in RGB; itself where it is in RGB already."""
    # `convert` copies an image that is RGB already, which for a photograph takes as long as the resize.
    return image if image.mode == "RGB" else image.convert("RGB")


def source_image(image: Image.Image | None) -> Image.Image:
    """The image that a transform works on.

    Raises:
        ValueError: there is none.
    """
    if image is None:
        raise ValueError("this transform needs an image of a source")
    return image


AS_PNG = Transform("", "the source's own pixels as PNG", (SIDE, SIDE), _apply_nothing)
