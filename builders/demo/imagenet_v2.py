"""The demo's ImageNetV2: one image of each class, in folders by class index.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from builders.demo.images import digest
from taxonomy import tables

_FOLDER = "imagenetv2-matched-frequency-format-val"
_PER_CLASS = (1, 0)


def _images() -> Iterator[Drawing]:
    for row in tables.imagenet1k():
        name = f"{row.index}/{digest('imagenet_v2', row.wnid).hex()[:40]}.jpeg"
        yield Drawing(f"{_FOLDER}/{name}", name, row.wnid)


DEMO = DemoFiles(_PER_CLASS, _images, strays=(f"{_FOLDER}/0/.DS_Store",))
