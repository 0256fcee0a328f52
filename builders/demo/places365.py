"""The demo's Places365, the small edition with its lists.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from builders.demo.base import DemoFiles, Drawing, lines
from builders.demo.images import ranked
from taxonomy import tables

_PER_CLASS = (3, 3)

_TROUBLES = {
    "val_256/Places365_val_00000001.jpg": "grayscale",
}

_VAL_LABELS = (165, 358, 93, 164, 289)
"""Labels of the first five validation images, as the real `places365_val.txt` has them."""


def _images() -> Iterator[Drawing]:
    categories = [row.category for row in tables.places365()]
    for category in categories:
        for number in range(1, _PER_CLASS[0] + 1):
            name = f"{category}/{number:08d}.jpg"
            yield Drawing(f"data_256{name}", f"train{name}", category)
    numbered = [f"{category}|{position}" for category in categories for position in range(_PER_CLASS[1])]
    shuffled = [item.partition("|")[0] for item in ranked(numbered, "places")]
    for position, label in enumerate(_VAL_LABELS):
        other = shuffled.index(categories[label], position)
        shuffled[position], shuffled[other] = shuffled[other], shuffled[position]
    for number, category in enumerate(shuffled, start=1):
        name = f"Places365_val_{number:08d}.jpg"
        yield Drawing(f"val_256/{name}", f"val/{name}", category)


def _lists(images: Sequence[Drawing]) -> dict[str, str]:
    index = {row.category: row.index for row in tables.places365()}
    rows = [(image.source_id.partition("/"), index[image.class_id]) for image in images]
    return {
        "categories_places365.txt": lines(f"{category} {number}" for category, number in index.items()),
        "places365_train_standard.txt": lines(f"/{i[2]} {label}" for i, label in rows if i[0] == "train"),
        "places365_val.txt": lines(f"{i[2]} {label}" for i, label in rows if i[0] == "val"),
    }


DEMO = DemoFiles(_PER_CLASS, _images, _lists, _TROUBLES, strays=("val_256/.DS_Store",))
