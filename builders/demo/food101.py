"""The demo's Food-101, with its lists.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from builders.demo.base import DemoFiles, Drawing, lines, numbers
from taxonomy import tables

_PER_CLASS = (4, 2)

_TROUBLES = {
    # The three images of the real archive that have one channel.
    "images/bread_pudding/1375816.jpg": "grayscale",
    "images/lasagna/3787908.jpg": "grayscale",
    "images/steak/1340977.jpg": "grayscale",
}
"""On top of their class's images."""


def _images() -> Iterator[Drawing]:
    troubled = [path.removesuffix(".jpg").split("/") for path in _TROUBLES]
    for name in tables.food101():
        troubled_numbers = [int(number) for _, class_id, number in troubled if class_id == name]
        for number in sorted([*numbers(name, sum(_PER_CLASS), 4_000_000), *troubled_numbers]):
            yield Drawing(f"images/{name}/{number}.jpg", f"{name}/{number}.jpg", name)


def _lists(images: Sequence[Drawing]) -> dict[str, str]:
    names = tables.food101()
    train, test = [], []
    for _, of_class in itertools.groupby(images, key=lambda image: image.class_id):
        ids = [image.source_id.removesuffix(".jpg") for image in of_class]
        train += ids[: -_PER_CLASS[1]]
        test += ids[-_PER_CLASS[1] :]
    return {
        "meta/classes.txt": lines(names),
        "meta/labels.txt": lines(name.replace("_", " ").capitalize() for name in names),
        "meta/train.txt": lines(train),
        "meta/test.txt": lines(test),
    }


DEMO = DemoFiles(
    _PER_CLASS,
    _images,
    _lists,
    _TROUBLES,
    strays=("images/apple_pie/notes.txt", "images/creme_brulee/crème brûlée.jpg"),
)
