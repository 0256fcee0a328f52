"""The demo's ImageNet-21k: of each class the first image that a list has, under its real name.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import lists

_PER_CLASS = (1, 0)


def _images() -> Iterator[Drawing]:
    for name in lists.OF_IMAGENET21K:  # 29 classes are in both lists, and have an image of each
        first: dict[str, str] = {}
        for path, wnid in lists.load_list(name).items():
            first.setdefault(wnid, path)
        for wnid, path in first.items():
            yield Drawing(path, path, wnid)


DEMO = DemoFiles(_PER_CLASS, _images)
