"""The demo's ImageNet-C: of each class the first photograph that OpenOOD lists, in the folders of the archives.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import tables

_PER_CLASS = (1, 0)


def _images() -> Iterator[Drawing]:
    kinds = {
        number: row["class"]
        for row in tables.read_rows("listed_openood_imagenet_c.csv")
        for number in row["images"].split()
    }
    for row in tables.read_rows("imagenet_c.csv"):
        number = row["images"].split()[0]
        name = f"ILSVRC2012_val_{number:0>8}.JPEG"
        yield Drawing(f"{kinds[number]}/{row['wnid']}/{name}", f"{kinds[number]}/{name}", row["wnid"])


DEMO = DemoFiles(_PER_CLASS, _images)
