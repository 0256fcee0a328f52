"""The demo's ImageNet-21k: of each class the first image that a list has, under its real name.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import tables

_PER_CLASS = (1, 0)


def _images() -> Iterator[Drawing]:
    for name in ("ssb_hard", "imagenet_ood"):  # 29 classes are in both lists, and have an image of each
        for row in tables.read_rows(f"listed_{name}.csv"):
            path = f"{row['class']}/{row['class']}_{row['images'].split()[0]}.JPEG"
            yield Drawing(path, path, row["class"])


DEMO = DemoFiles(_PER_CLASS, _images)
