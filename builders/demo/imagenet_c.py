"""The demo's ImageNet-C: of each class the first photograph that OpenOOD lists, in the folders of the archives.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import lists, tables

_PER_CLASS = (1, 0)


def _images() -> Iterator[Drawing]:
    listed = {name[-13:-5].lstrip("0"): name for name in lists.load_list("openood_imagenet_c")}
    for row in tables.read_csv_rows("imagenet_c.csv"):
        name = listed[row["images"].split()[0]]
        kind, _, file = name.rpartition("/")
        yield Drawing(f"{kind}/{row['wnid']}/{file}", name, row["wnid"])


DEMO = DemoFiles(_PER_CLASS, _images)
