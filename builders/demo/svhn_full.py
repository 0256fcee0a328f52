"""The demo's SVHN with full numbers.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from builders.demo.arrays import draw_digits
from builders.demo.base import DemoFiles, Drawing

_PER_CLASS = (24, 12)


def _images() -> Iterator[Drawing]:
    for partition, count in zip(("train", "test"), _PER_CLASS, strict=True):
        for number in range(1, count + 1):
            path = f"{partition}/{number}.png"
            yield Drawing(path, path, "number", _house_number, "png")


def _house_number(_: bytes, of_image: bytes) -> Image.Image:
    """Draw one to three digits side by side, in a size of the image's own."""
    digits = [byte % 10 for byte in of_image[: 1 + of_image[9] % 3]]
    pixels = np.concatenate(list(draw_digits([of_image] * len(digits), digits)), axis=1)
    width, height = 14 + of_image[10] % 18, 20 + of_image[11] % 13
    return Image.fromarray(pixels).resize((len(digits) * width, height), Image.Resampling.NEAREST)


def _lists(_: Sequence[Drawing]) -> dict[str, str]:
    # The real ones are HDF5 and a script; nothing reads them.
    texts = {"digitStruct.mat": "MATLAB 7.3 MAT-file (none in the demo)\n", "see_bboxes.m": "% none in the demo\n"}
    return {f"{partition}/{name}": text for partition in ("train", "test") for name, text in texts.items()}


DEMO = DemoFiles(_PER_CLASS, _images, _lists, strays=("train/.DS_Store",))
