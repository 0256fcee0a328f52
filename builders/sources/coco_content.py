"""Reads from COCO's annotations each image's class for this project, and how much of it each category covers.

Of COCO's 80 categories 17 are ImageNet classes as well (the table `cocomagenet` of `taxonomy.decisions`). An image has
the class of one of them if its objects, people aside, are all of that category. It is of the class `several` if it has
two or more of the 17, and `other` in all other cases.

Tested by `tests/builders/sources/test_coco2017.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.release.schema import Column
from builders.sources.coco_instances import Instances
from builders.sources.coco_masks import category_areas
from taxonomy import decisions, tables

SEVERAL, OTHER = "several", "other"

_PERSON = 1
_NUMBERS = 100
"""More than the largest of COCO's category numbers, 90."""

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@functools.cache
def shared() -> Mapping[int, tuple[str, str]]:
    """Return name and wnid of the categories that ImageNet shares, by their numbers, ascending."""
    wnids = {
        item.class_id: item.matched for item in decisions.load_decisions("cocomagenet") if item.decision == "shared"
    }
    return {item.id: (item.name, wnids[item.name]) for item in tables.coco80() if item.name in wnids}


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the shared categories in COCO's order, and two classes for images without exactly one of them."""
    single = {name: name for name, _ in shared().values()}
    return single | {SEVERAL: "several classes of ImageNet", OTHER: "other objects"}


COLUMNS = (
    Column("categories", "string", "the COCO categories in the image that ImageNet shares, the largest first"),
    Column("wnids", "string", "the ImageNet classes of the same names, in the same order"),
    Column("largest_area", "float64", "the part of the image that the largest of them covers, the union of its masks"),
    Column("second_area", "float64", "the part that the second-largest of them covers; 0 where there is none"),
    Column("largest_object_area", "float64", "as largest_area, but of each category its last annotated object alone"),
    Column("second_object_area", "float64", "as second_area, but of each category its last annotated object alone"),
    *(
        Column(f"area_{name}", "float64", f"the part of the image that objects of the category {name} cover")
        for name, _ in shared().values()
    ),
    Column("licence", "string", "the licence of the image as COCO states it; empty where it states none"),
    Column("flickr_url", "string", "where COCO found the image, so that its maker can be credited"),
)
"""The columns of each image. All parts are of the image's own pixels."""


def class_codes_of(instances: Instances) -> Int64:
    """Return the position in `classes` of each image's class."""
    present = np.zeros((len(instances.images), _NUMBERS), bool)
    present[instances.positions, instances.categories] = True
    shared_present = present[:, list(shared())]
    present[:, _PERSON] = False
    names = list(classes())
    codes = np.full(len(shared_present), names.index(OTHER), np.int64)
    codes[shared_present.sum(axis=1) >= 2] = names.index(SEVERAL)
    has_one = (present.sum(axis=1) == 1) & shared_present.any(axis=1)
    codes[has_one] = shared_present[has_one].argmax(axis=1)
    return codes


def values_of(instances: Instances) -> dict[str, pa.Array]:
    """Return the values of `COLUMNS` for each image.

    Raises:
        BuildError: a mask of a shared category is malformed.
    """
    numbers = list(shared())
    pixels = np.array([image.width * image.height for image in instances.images], np.float64)[:, None]
    parts: Floats = category_areas(instances, numbers) / pixels
    selected = np.flatnonzero(np.isin(instances.categories, numbers))
    positions, columns = instances.positions[selected], np.searchsorted(numbers, instances.categories[selected])
    last = np.zeros_like(parts)
    # Of assignments to one place the last one stays.
    last[positions, columns] = [instances.annotations[number].area for number in selected.tolist()]
    present = np.zeros(parts.shape, bool)
    present[positions, columns] = True
    largest, second = _two_largest(parts)
    largest_object, second_object = _two_largest(last / pixels)
    categories, wnids = _named(parts, present)
    values = [
        pa.array(categories, pa.string()),
        pa.array(wnids, pa.string()),
        *map(pa.array, (largest, second, largest_object, second_object)),
        *(pa.array(parts[:, column]) for column in range(len(numbers))),
        pa.array([instances.licences.get(image.license, "") for image in instances.images], pa.string()),
        pa.array([image.flickr_url for image in instances.images], pa.string()),
    ]
    return {column.name: value for column, value in zip(COLUMNS, values, strict=True)}


def _two_largest(parts: Floats) -> tuple[Floats, Floats]:
    ascending = np.sort(parts, axis=1)
    return ascending[:, -1].copy(), ascending[:, -2].copy()


def _named(parts: Floats, present: Bools) -> tuple[list[str], list[str]]:
    """Return names and wnids of each image's categories, the largest first and equal ones by number."""
    categories_of_columns = list(shared().values())
    order = np.argsort(-parts, axis=1, kind="stable")
    categories, wnids = [""] * len(parts), [""] * len(parts)
    for row in np.flatnonzero(present.any(axis=1)).tolist():
        ranked = [categories_of_columns[column] for column in order[row].tolist() if present[row, column]]
        categories[row], wnids[row] = ", ".join(name for name, _ in ranked), ", ".join(wnid for _, wnid in ranked)
    return categories, wnids
