"""Reads COCO's instance annotations, and counts how many pixels of each image a category covers.

`instances_train2017.json` has 118,287 images and 860,001 objects in 448 MB. It is decoded into typed structs in
seconds. Masks make up nine tenths of it and stay as they are in the file until they are asked for (`msgspec.Raw`), so
that the file and its objects take less than 1 GB together. pycocotools rasterises and joins masks, as run lengths:
the objects of a category often overlap (and image 99844 has its annotations twice), so that their summed areas would
count pixels more than once.

Tested by `tests/builders/sources/datasets/test_coco2017.py` and `tests/builders/sources/test_coco_masks.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
from pycocotools import mask

from builders.errors import BuildError
from taxonomy import tables

TITLE = "COCO 2017"
FILE = "instances_train2017.json"

_NUMBERS = 91  # the largest number of COCO's categories is 90

_MOST_BYTES = 2**30
"""A file larger than this is not COCO's, which has 448 MB, and is not read into memory."""

_LONGEST_SIDE = 16_384
"""Pixels that an image may have on a side. COCO's have 640; pycocotools counts a mask's pixels in 32 bits."""

_POINTS = 3
"""The fewest points of a polygon that covers anything. Others are left out: pycocotools reads two points as a box."""

_OUTSIDE = 1
"""How far outside the image a polygon may reach, in lengths of its longer side: a mask's memory grows with that."""

Id = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Side = Annotated[int, msgspec.Meta(ge=1, le=_LONGEST_SIDE)]
Link = Annotated[str, msgspec.Meta(pattern=r"^(https?://[!-~]+)?$", max_length=500)]

Int64 = npt.NDArray[np.int64]


class CocoImage(msgspec.Struct, gc=False, frozen=True):
    """An image as the annotations describe it."""

    id: Id
    file_name: str
    width: Side
    height: Side
    license: int
    flickr_url: Link = ""


class Annotation(msgspec.Struct, gc=False, frozen=True):
    """One annotated object, or a crowd of them; `segmentation` is JSON that is not decoded yet."""

    id: Id
    image_id: Id
    category_id: int
    area: float
    segmentation: msgspec.Raw


class _Category(msgspec.Struct, frozen=True):
    id: int
    name: str


class _Licence(msgspec.Struct, frozen=True):
    id: int
    url: Link


class _File(msgspec.Struct):
    images: list[CocoImage]
    annotations: list[Annotation]
    categories: list[_Category]
    licenses: list[_Licence] = []


class _Runs(msgspec.Struct, frozen=True):
    """An uncompressed run-length encoding, as the file has it for crowds: column by column, beginning with zeros."""

    size: tuple[int, int]
    counts: list[Annotated[int, msgspec.Meta(ge=0, lt=2**32)]]


_MASK = msgspec.json.Decoder(list[list[float]] | _Runs)


@dataclass(frozen=True)
class Instances:
    """The contents of a file of annotations: images by ascending id, annotations in the file's order.

    `positions` has each object's position in `images`, `categories` its category's number; both of shape (n,).
    """

    path: Path
    images: Sequence[CocoImage]
    annotations: Sequence[Annotation]
    positions: Int64
    categories: Int64
    licences: Mapping[int, str]

    def present(self) -> npt.NDArray[np.bool_]:
        """Return whether each image has objects of each category; shape (images, 91), columns by category number."""
        present = np.zeros((len(self.images), _NUMBERS), bool)
        present[self.positions, self.categories] = True
        return present


def wrong(path: Path, problem: str) -> BuildError:
    """Return the error for an unusable file of annotations; `problem` continues the sentence after its path."""
    return BuildError(
        f"{TITLE}: {path} {problem}. Unpack annotations_trainval2017.zip again, and give the folder that holds "
        f"annotations/{FILE} with --coco2017."
    )


def read_instances(path: Path) -> Instances:
    """Read and check a file of annotations.

    Raises:
        BuildError: the file is not such JSON, or contradicts itself or COCO's categories.
    """
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise wrong(path, f"has {size:,} bytes, more than COCO's annotations")
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise wrong(path, f"is not a whole file of COCO's annotations ({error})") from error
    annotations = content.annotations
    if not content.images or not annotations:
        raise wrong(path, "has no images or no annotations")
    numbers = {category.id: category.name for category in tables.coco80()}
    if {category.id: category.name for category in content.categories} != numbers:
        raise wrong(path, "has other categories than COCO's 80")
    images = sorted(content.images, key=lambda image: image.id)
    ids = np.array([image.id for image in images], np.int64)
    if (repeated := ids[1:][ids[1:] == ids[:-1]]).size:
        raise wrong(path, f"has the image {repeated[0]} twice")
    owners = np.array([entry.image_id for entry in annotations], np.int64)
    positions = np.minimum(np.searchsorted(ids, owners), len(ids) - 1)
    categories = np.array([entry.category_id for entry in annotations], np.int64)
    fits = (ids[positions] == owners) & np.isin(categories, list(numbers))
    if not fits.all():
        entry = annotations[int(np.argmin(fits))]
        problem = f"the image {entry.image_id} or the category {entry.category_id}, which it does not list"
        raise wrong(path, f"has the annotation {entry.id} of {problem}")
    licences = {terms.id: terms.url for terms in content.licenses}
    return Instances(path, images, annotations, positions, categories, licences)


def category_areas(instances: Instances, categories: Sequence[int]) -> Int64:
    """Count the pixels covered by the union of each category's masks, for some categories in every image.

    The counts have the shape (images, categories), in the orders of `instances.images` and `categories`.

    Raises:
        BuildError: a mask of one of these categories is malformed, or none of them has any.
    """
    areas = np.zeros((len(instances.images), len(categories)), np.int64)
    column_of = {category: column for column, category in enumerate(categories)}
    selected = np.flatnonzero(np.isin(instances.categories, categories))
    keys = instances.positions[selected] * _NUMBERS + instances.categories[selected]
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
        raise wrong(instances.path, "has no annotation with a mask, only boxes")
    return areas


def _encoded(instances: Instances, annotation: Annotation, image: CocoImage) -> list[Any]:
    """Return the masks of an annotation as pycocotools's compressed run lengths."""
    height, width = image.height, image.width
    try:
        runs = _MASK.decode(annotation.segmentation)
        if isinstance(runs, list):
            polygons = [polygon for polygon in runs if _covers(polygon, image)]
            return list(mask.frPyObjects(polygons, height, width)) if polygons else []
        if runs.size != (height, width) or sum(runs.counts) != height * width:
            actual = f"{runs.size[1]} x {runs.size[0]} pixels ({sum(runs.counts):,} in its runs)"
            raise ValueError(f"it has {actual}, its image {width} x {height}")
    except (msgspec.DecodeError, ValueError) as error:
        problem = f"a mask of the annotation {annotation.id} that is no polygon and no uncompressed run lengths"
        raise wrong(instances.path, f"has {problem} ({error})") from error
    return [mask.frPyObjects({"size": [height, width], "counts": runs.counts}, height, width)]


def _covers(polygon: list[float], image: CocoImage) -> bool:
    """Whether a polygon has enough points to cover anything.

    Raises:
        ValueError: it lacks a coordinate, or lies far outside of its image.
    """
    if len(polygon) % 2:
        raise ValueError(f"{len(polygon)} numbers are not pairs of x and y")
    side = max(image.width, image.height)
    if polygon and not (min(polygon) >= -_OUTSIDE * side and max(polygon) <= (1 + _OUTSIDE) * side):
        raise ValueError(f"a point lies far outside of the {image.width} x {image.height} pixels")
    return len(polygon) >= 2 * _POINTS
