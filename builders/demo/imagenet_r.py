"""The demo's ImageNet-R: an artwork and a sketch of each class.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import tables

_FOLDER = "imagenet-r"
_PER_CLASS = (2, 0)


def _images() -> Iterator[Drawing]:
    for row in tables.read_rows("imagenet_r.csv"):
        for kind in ("art", "sketch"):
            name = f"{row['wnid']}/{kind}_0.jpg"
            yield Drawing(f"{_FOLDER}/{name}", name, row["wnid"])


# README.txt lies in the real archive.
DEMO = DemoFiles(_PER_CLASS, _images, strays=(f"{_FOLDER}/README.txt",))
