"""The demo's ImageNet-R: an artwork and a sketch of each class.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import lists

_FOLDER = "imagenet-r"
_PER_CLASS = (2, 0)


def _images() -> Iterator[Drawing]:
    for wnid in lists.imagenet_r():
        for kind in ("art", "sketch"):
            name = f"{wnid}/{kind}_0.jpg"
            yield Drawing(f"{_FOLDER}/{name}", name, wnid)


# README.txt lies in the real archive.
DEMO = DemoFiles(_PER_CLASS, _images, strays=(f"{_FOLDER}/README.txt",))
