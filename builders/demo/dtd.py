"""The demo's Describable Textures, with its lists.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builders.demo.base import DemoFiles, Drawing, lines, numbers
from taxonomy import tables

_PER_CLASS = (4, 0)

_TROUBLES = {
    "images/banded/banded_0001.jpg": "cmyk",
    "images/dotted/dotted_0001.jpg": "exif-float-for-text",
    "images/grid/grid_0001.jpg": "grayscale",
    "images/knitted/knitted_0001.jpg": "exif-double-for-text",
    "images/lined/lined_0001.jpg": "exif-no-denominator",
    "images/zigzagged/zigzagged_0001.jpg": "orientation",
}


def _images() -> Iterator[Drawing]:
    for name in tables.dtd():
        for number in numbers(name, _PER_CLASS[0], 250, (1,)):
            file = f"{name}/{name}_{number:04d}.jpg"
            yield Drawing(f"images/{file}", file, name)


def _lists(images: Sequence[Drawing]) -> dict[str, str]:
    ids = [image.source_id for image in images]
    return {f"labels/{name}1.txt": lines(ids[start::3]) for start, name in enumerate(("train", "val", "test"))}


# The stray is what a file manager left in a folder of the real archive when somebody looked at it.
DEMO = DemoFiles(_PER_CLASS, _images, _lists, _TROUBLES, strays=("images/waffled/.directory",))
