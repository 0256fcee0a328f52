"""The demo's iNaturalist subset: two images of each species, under names that real images have.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from builders.demo.base import DemoFiles, Drawing
from taxonomy import tables

_PER_CLASS = (2, 0)

# The troubles' places are ours: which of the real images have any is not known.
_TROUBLES = {
    "iNaturalist/images/1d6895c461e58f4924d45fb25fe6cea9.jpg": "orientation",
    "iNaturalist/images/6880b704dc090d7d9be44c004dc89cee.jpg": "grayscale",
}


def _images() -> Iterator[Drawing]:
    # Images that were examined for objects of ImageNet-1k come first, those that show one before the others.
    examined = {image.source_id: image.decision != "i" for image in tables.examined_images()}
    names = sorted(tables.inaturalist(), key=lambda name: (examined.get(name, 2), name))
    counts: dict[str, int] = {}
    for name in names:
        species = tables.inaturalist()[name]
        counts[species] = counts.get(species, 0) + 1
        if counts[species] <= sum(_PER_CLASS):
            yield Drawing(f"iNaturalist/images/{name}", name, species)


DEMO = DemoFiles(_PER_CLASS, _images, troubles=_TROUBLES, strays=("iNaturalist/images/.DS_Store",))
