"""Reads COCO's instance annotations, `instances_train2017.json`: 118,287 images and 860,001 objects in 448 MB.

The file is decoded into typed structs in seconds. Masks make up nine tenths of it and stay as they are in the file
until they are asked for (`msgspec.Raw`), so that the file and its objects take less than 1 GB together.

Tested by `tests/builders/sources/test_coco2017.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from taxonomy import tables

TITLE = "COCO 2017"
FILE = "instances_train2017.json"
FETCH = f"Unpack annotations_trainval2017.zip again, and give the folder that holds annotations/{FILE} with --coco2017"

MOST_BYTES = 2**30
"""A file larger than this is not COCO's, which has 448 MB, and is not read into memory."""

LONGEST_SIDE = 16_384
"""Pixels that an image may have on a side. COCO's have 640; pycocotools counts a mask's pixels in 32 bits."""

Id = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Side = Annotated[int, msgspec.Meta(ge=1, le=LONGEST_SIDE)]
Link = Annotated[str, msgspec.Meta(pattern=r"^(https?://[!-~]+)?$", max_length=500)]


class CocoImage(msgspec.Struct, gc=False, frozen=True):
    """An image as the file describes it."""

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


class Category(msgspec.Struct, frozen=True):
    """A category and its number."""

    id: int
    name: str


class Terms(msgspec.Struct, frozen=True):
    """A licence that images refer to by its number."""

    id: int
    url: Link


class _File(msgspec.Struct):
    images: list[CocoImage]
    annotations: list[Annotation]
    categories: list[Category]
    licenses: list[Terms] = []


@dataclass(frozen=True)
class Instances:
    """The file's content: images by ascending id, annotations in the file's order.

    `positions` has each object's position in `images`, `categories` its category's number; both of shape (n,).
    """

    path: Path
    images: Sequence[CocoImage]
    annotations: Sequence[Annotation]
    positions: npt.NDArray[np.int64]
    categories: npt.NDArray[np.int64]
    licences: dict[int, str]


def read_instances(path: Path) -> Instances:
    """Read and check a file of annotations.

    Raises:
        BuildError: the file is not such JSON, or contradicts itself or COCO's categories.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise BuildError(f"{TITLE}: {path} has {size:,} bytes, more than COCO's annotations. {FETCH}.")
    try:
        content = msgspec.json.decode(path.read_bytes(), type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BuildError(f"{TITLE}: {path} is not a whole file of COCO's annotations ({error}). {FETCH}.") from error
    annotations = content.annotations
    if not content.images or not annotations:
        raise BuildError(f"{TITLE}: {path} has no images or no annotations. {FETCH}.")
    images = sorted(content.images, key=lambda image: image.id)
    ids = np.array([image.id for image in images], np.int64)
    _refuse_repeated(path, "image", ids)
    _refuse_repeated(path, "annotation", np.sort(np.array([entry.id for entry in annotations], np.int64)))
    _check_categories(path, content.categories)
    owners = np.array([entry.image_id for entry in annotations], np.int64)
    positions = np.minimum(np.searchsorted(ids, owners), len(ids) - 1)
    if (orphans := np.flatnonzero(ids[positions] != owners)).size:
        raise _wrong(path, annotations[orphans[0]], f"is of the image {owners[orphans[0]]}, which is not listed")
    categories = np.array([entry.category_id for entry in annotations], np.int64)
    unknown = np.flatnonzero(~np.isin(categories, [category.id for category in tables.coco80()]))
    if unknown.size:
        raise _wrong(path, annotations[unknown[0]], f"is of the unknown category {categories[unknown[0]]}")
    licences = {terms.id: terms.url for terms in content.licenses}
    return Instances(path, images, annotations, positions, categories, licences)


def _refuse_repeated(path: Path, kind: str, ascending: npt.NDArray[np.int64]) -> None:
    repeated = np.flatnonzero(ascending[1:] == ascending[:-1])
    if repeated.size:
        raise BuildError(f"{TITLE}: {path} has the {kind} {ascending[repeated[0]]} twice. {FETCH}.")


def _check_categories(path: Path, listed: Sequence[Category]) -> None:
    expected = {category.id: category.name for category in tables.coco80()}
    actual = {category.id: category.name for category in listed}
    if actual != expected:
        number, _ = min(expected.items() ^ actual.items())
        raise BuildError(
            f"{TITLE}: the categories of {path} are not COCO's 80: number {number} is "
            f"{actual.get(number, 'missing')}, not {expected.get(number, 'one of them')}. {FETCH}."
        )


def _wrong(path: Path, annotation: Annotation, problem: str) -> BuildError:
    return BuildError(f"{TITLE}: the annotation {annotation.id} in {path} {problem}. {FETCH}.")
