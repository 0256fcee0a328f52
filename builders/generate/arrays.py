"""The generator that stores the 32 x 32 arrays of a source as PNG, with their pixels unchanged.

Tested by `tests/builders/generate/test_task.py`.
"""

from __future__ import annotations

from builders.generate.contract import EachImage, Generated, Generator, SourceImage

SIDE = 32
"""Width and height of these arrays, and of every image of the CIFAR-scale benchmark."""


def _unchanged_pixels(image: SourceImage) -> Generated:
    """Return the pixels of an image unchanged, or a reason if it is not 32 x 32 like the arrays of its source."""
    rgb = image.rgb
    if rgb.size != (SIDE, SIDE):
        return Generated(None, reason=f"it has {rgb.width} x {rgb.height} pixels instead of {SIDE} x {SIDE}")
    import numpy as np

    return Generated(np.asarray(rgb))


AS_PNG = Generator(
    name="",
    version=1,
    description="the source's own pixels as PNG",
    size=(SIDE, SIDE),
    start=EachImage(_unchanged_pixels),
)
"""The generator of sources with arrays. It is only called for images in files: arrays are read many at a time
(`builders.generate.task`)."""
