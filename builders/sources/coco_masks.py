"""Computes the areas of COCO's categories in each image: the pixels that the union of a category's masks covers.

Masks are rasterised and joined by pycocotools, as run lengths. The objects of a category often overlap (and image
99844 has its annotations twice), so that their summed areas would count pixels more than once.

Tested by `tests/builders/sources/test_coco_masks.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from pycocotools import mask

from builders.errors import BuildError
from builders.sources.coco_instances import FETCH, TITLE, Annotation, CocoImage, Instances

Polygon = list[float]

POINTS = 3
"""The fewest points of a polygon that covers anything. Others are left out: pycocotools reads two points as a box."""

OUTSIDE = 1
"""How far outside the image a polygon may reach, in lengths of its longer side: a mask's memory grows with that."""


class _Runs(msgspec.Struct, frozen=True):
    """An uncompressed run-length encoding, as the file has it for crowds: column by column, beginning with zeros."""

    size: tuple[int, int]
    counts: list[Annotated[int, msgspec.Meta(ge=0, lt=2**32)]]


_MASK = msgspec.json.Decoder(list[Polygon] | _Runs)


def category_areas(instances: Instances, categories: Sequence[int]) -> npt.NDArray[np.int64]:
    """Count the pixels of some categories in every image.

    Args:
        instances: the annotations.
        categories: k category numbers.

    Returns:
        Shape (images, k), in the orders of `instances.images` and `categories`.

    Raises:
        BuildError: a mask of one of these categories is malformed, or none of them has any.
    """
    areas = np.zeros((len(instances.images), len(categories)), np.int64)
    column_of = {category: column for column, category in enumerate(categories)}
    selected = np.flatnonzero(np.isin(instances.categories, categories))
    keys = instances.positions[selected] * 100 + instances.categories[selected]  # category numbers end at 90
    selected = selected[np.argsort(keys, kind="stable")]
    masks = 0
    images, numbers = instances.positions.tolist(), instances.categories.tolist()
    for (position, category), group in itertools.groupby(selected.tolist(), lambda row: (images[row], numbers[row])):
        image = instances.images[position]
        runs = [run for number in group for run in _encoded(instances, instances.annotations[number], image)]
        masks += len(runs)
        if runs:
            areas[position, column_of[category]] = mask.area(mask.merge(runs))
    if len(selected) and not masks:
        raise BuildError(f"{TITLE}: no annotation in {instances.path} has a mask, only boxes. {FETCH}.")
    return areas


def _encoded(instances: Instances, annotation: Annotation, image: CocoImage) -> list[Any]:
    """Return the masks of an annotation as pycocotools's compressed run lengths."""
    height, width = image.height, image.width
    try:
        runs = _MASK.decode(annotation.segmentation)
        if isinstance(runs, list):
            polygons = [polygon for polygon in runs if _covers(polygon, image)]
            return list(mask.frPyObjects(polygons, height, width)) if polygons else []
    except (msgspec.DecodeError, ValueError) as error:
        raise _wrong(instances, annotation, f"is no polygon and no uncompressed run lengths ({error})") from error
    if runs.size != (height, width) or sum(runs.counts) != height * width:
        actual = f"{runs.size[1]} x {runs.size[0]} pixels ({sum(runs.counts):,} in its runs)"
        raise _wrong(instances, annotation, f"has {actual}, its image {width} x {height}")
    return [mask.frPyObjects({"size": [height, width], "counts": runs.counts}, height, width)]


def _covers(polygon: Polygon, image: CocoImage) -> bool:
    """Whether a polygon has enough points to cover anything.

    Raises:
        ValueError: it lacks a coordinate, or lies far outside of its image.
    """
    if len(polygon) % 2:
        raise ValueError(f"{len(polygon)} numbers are not pairs of x and y")
    side = max(image.width, image.height)
    if polygon and not (min(polygon) >= -OUTSIDE * side and max(polygon) <= (1 + OUTSIDE) * side):
        raise ValueError(f"a point lies far outside of the {image.width} x {image.height} pixels")
    return len(polygon) >= 2 * POINTS


def _wrong(instances: Instances, annotation: Annotation, problem: str) -> BuildError:
    return BuildError(f"{TITLE}: the mask of annotation {annotation.id} in {instances.path} {problem}. {FETCH}.")
