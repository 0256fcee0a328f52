"""The demo's SUN of MOS: the first listed names.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import lists

_PER_CLASS = (40, 0)


def _images() -> Iterator[Drawing]:
    for name in sorted(lists.load_list("mos_sun"))[: sum(_PER_CLASS)]:
        # No two show one thing, as the set has no classes.
        yield Drawing(f"SUN/images/{name}", name, name)


DEMO = DemoFiles(_PER_CLASS, _images, strays=("SUN/images/.DS_Store",))
