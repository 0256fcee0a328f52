"""Images that sources have as 32 x 32 arrays, stored as PNG with their own pixels.

Tested by `tests/builders/generate/test_task.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from builders.generate.contract import Generate, Generated, Generator, SourceImage

SIDE = 32
"""Width and height of these arrays, and of every image of the CIFAR-scale benchmark."""


def as_rgb(image: SourceImage) -> Generated:
    """The pixels of an image as they are; a reason where it is not 32 x 32, as the arrays of its source are."""
    rgb = image.rgb
    if rgb.size != (SIDE, SIDE):
        return Generated(None, reason=f"it has {rgb.width} x {rgb.height} pixels instead of {SIDE} x {SIDE}")
    return Generated(np.asarray(rgb))


def _start(_: Generator) -> Generate:
    return _generate


def _generate(images: Sequence[SourceImage]) -> list[Generated]:
    return [as_rgb(image) for image in images]


AS_PNG = Generator(
    name="",
    version=1,
    description="the source's own pixels as PNG",
    size=(SIDE, SIDE),
    start=_start,
)
"""`builders.generate.batches` reads arrays many at a time and asks it only for images that come in files."""
