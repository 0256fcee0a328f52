"""The demo's Caltech-256.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import tables

_PER_CLASS = (4, 0)

_TROUBLES = {
    "256_ObjectCategories/133.lightning/133_0001.jpg": "grayscale",
    "256_ObjectCategories/133.lightning/133_0003.jpg": "orientation",
}

_STRAYS = (
    # The first two, a file and an empty folder, are in the real archive.
    "256_ObjectCategories/198.spider/RENAME2",
    "256_ObjectCategories/056.dog/greg/vision309/",
    "256_ObjectCategories/056.dog/greg/vision309.txt",
    "256_ObjectCategories/133.lightning/relámpago 雷.jpg",
)


def _images() -> Iterator[Drawing]:
    for row in tables.caltech256():
        for number in range(1, _PER_CLASS[0] + 1):
            name = f"{row.folder}/{row.number:03d}_{number:04d}.jpg"
            yield Drawing(f"256_ObjectCategories/{name}", name, row.folder)


DEMO = DemoFiles(_PER_CLASS, _images, troubles=_TROUBLES, strays=_STRAYS)
