"""COCO 2017's training images, with columns from their instance annotations (`builders.sources.coco_annotations`).

The annotations are a file beside the images, `annotations/instances_train2017.json`. The 1,021 images that have none
are not indexed: nothing is known of them, and mirrors leave them out.

Of COCO's 80 categories 17 are ImageNet classes as well (the table `cocomagenet` of `taxonomy.decisions`). An image has
the class of one of them if its objects, people aside, are all of that category. It is of the class `several` if it has
two or more of the 17, and `other` in all other cases.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.release.schema import Column
from builders.sources.base import CopyLayout, Expected, Home, Licence, OtherDataError, PartitionIndex, Source
from builders.sources.coco_annotations import FILE, TITLE, Instances, category_areas, read_instances, wrong
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers.folders import escape_name
from builders.sources.readers.parquet import Shard
from builders.sources.readers.patterns import ImageNames
from builders.sources.readers.trees import Tree
from taxonomy import decisions, tables

_KEY = "coco2017"
_FOLDER = "train2017"
SEVERAL, OTHER = "several", "other"
_PERSON = 1

Int64 = npt.NDArray[np.int64]

# Addresses are the owners', sizes and SHA-256 those of tensorflow/datasets (url_checksums/coco2017.txt); many public
# scripts check the MD5.
_FILES = (
    OwnerFile(
        f"{_FOLDER}.zip",
        19_336_861_798,
        url="http://images.cocodataset.org/zips/train2017.zip",
        md5="cced6f7f71b7629ddf16f17bbcfab6b2",
        sha256="69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929",
        unpacked=_FOLDER,
    ),
    OwnerFile(
        "annotations_trainval2017.zip",
        252_907_541,
        url="http://images.cocodataset.org/annotations/annotations_trainval2017.zip",
        md5="f4bbac642086de4f52a3fdda2de5fa2c",
        sha256="113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268",
        unpacked=f"annotations/{FILE}",
    ),
)
_NAME_FORM = "<12 digits>.jpg"


@functools.cache
def shared() -> Mapping[int, tuple[str, str]]:
    """Return name and wnid of each category that ImageNet shares, by the category's number, ascending."""
    wnids = {
        item.class_id: item.matched for item in decisions.load_decisions("cocomagenet") if item.decision == "shared"
    }
    return {item.id: (item.name, wnids[item.name]) for item in tables.coco80() if item.name in wnids}


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the shared categories in COCO's order, and two classes for images with none or several of them."""
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


def _class_ids(present: npt.NDArray[np.bool_]) -> pa.Array:
    """Return each image's class, given whether it has objects of each category (by its number)."""
    of_shared = present[:, list(shared())]
    others = np.delete(present, [_PERSON, *shared()], axis=1).any(axis=1)
    names = np.array(list(classes()))
    class_ids = np.full(len(present), OTHER, names.dtype)
    class_ids[of_shared.sum(axis=1) >= 2] = SEVERAL
    has_one = (of_shared.sum(axis=1) == 1) & ~others
    class_ids[has_one] = names[of_shared[has_one].argmax(axis=1)]
    return pa.array(class_ids.tolist(), pa.string())


def _columns(instances: Instances, present: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Return the values of `COLUMNS` for each image."""
    numbers = list(shared())
    pixels = np.array([image.width * image.height for image in instances.images], np.float64)[:, None]
    parts = category_areas(instances, numbers) / pixels
    selected = np.flatnonzero(np.isin(instances.categories, numbers))
    last = np.zeros_like(parts)
    # Of assignments to one place the last one stays.
    last[instances.positions[selected], np.searchsorted(numbers, instances.categories[selected])] = [
        instances.annotations[number].area for number in selected.tolist()
    ]
    # The largest first, and equal ones by number.
    order = np.argsort(-parts, axis=1, kind="stable").tolist()
    ranked = [
        [shared()[numbers[column]] for column in columns if present[row, numbers[column]]]
        for row, columns in enumerate(order)
    ]
    largest = [np.sort(areas, axis=1)[:, rank].copy() for areas in (parts, last / pixels) for rank in (-1, -2)]
    values = [
        pa.array([", ".join(name for name, _ in pairs) for pairs in ranked], pa.string()),
        pa.array([", ".join(wnid for _, wnid in pairs) for pairs in ranked], pa.string()),
        *map(pa.array, largest),
        *(pa.array(parts[:, column]) for column in range(len(numbers))),
        pa.array([instances.licences.get(image.license, "") for image in instances.images], pa.string()),
        pa.array([image.flickr_url for image in instances.images], pa.string()),
    ]
    return {column.name: value for column, value in zip(COLUMNS, values, strict=True)}


def image_name(number: int) -> str:
    """Return the file name of the image with this number."""
    return f"{number:012d}.jpg"


def source_id(number: int) -> str:
    """Return the stable id of the image with this number."""
    return f"{_FOLDER}/{image_name(number)}"


def _ids(numbers: Int64) -> pa.Array:
    return pa.array([source_id(number) for number in numbers.tolist()], pa.string())


class _CocoNames(ImageNames):
    """The images of a copy that its annotations describe."""

    def indexed(self, tree: Tree) -> PartitionIndex:
        instances = _annotations(tree.home.folder, tree.description)
        present = instances.present()
        listed = np.array([image.id for image in instances.images], np.int64)
        annotated = np.asarray(present.any(axis=1))
        numbers = pc.cast(tree.column("number"), pa.int64()).to_numpy()
        rows = np.minimum(np.searchsorted(listed, numbers), len(listed) - 1)
        known = listed[rows] == numbers
        rows = rows[known]
        # What is listed and has no annotation is neither an image of the source nor a stray.
        tree = tree.keep(pa.array(known), f"its number is not in {FILE}").keep(pa.array(annotated[rows]))
        rows = rows[annotated[rows]]
        columns = {name: values.take(pa.array(rows)) for name, values in _columns(instances, present).items()}
        missing = _ids(np.setdiff1d(listed[annotated], numbers))
        return self.index(tree, _class_ids(present[rows]), _ids(listed[rows]), columns, missing=missing)


_IMAGES = _CocoNames(r"(?:.*/)?(?P<number>[0-9]{12})\.jpg", _NAME_FORM)


def _annotations(home: Path, description: str) -> Instances:
    """Read the annotations of a copy whose images are in `home`."""
    path = next((path for path in (home / "annotations" / FILE, home / FILE) if path.is_file()), None)
    if path is None:
        raise OtherDataError(
            f"{TITLE}: {home} has images ({description}) but no annotations/{FILE}. Unpack "
            f"annotations_trainval2017.zip in {home}, and give that folder with --{_KEY}."
        )
    instances = read_instances(path)
    for image in instances.images:
        if image.file_name != image_name(image.id):
            name = escape_name(image.file_name)
            raise wrong(path, f"calls the image {image.id} {name}, not {image_name(image.id)}, as other editions do")
    return instances


def _names(shard: Shard) -> pa.Array:
    """Return COCO's numbers of a mirror's images, which detection-datasets/coco has in `image_id`, as file names."""
    shard.refuse(pc.is_null(shard.labels), "image_id has no number")
    return pa.array([image_name(number) for number in shard.labels.to_pylist()], pa.string())


def _zipped(home: Home) -> PartitionIndex | None:
    if (home.folder / f"{_FOLDER}.zip").is_file():
        raise OtherDataError(f"{TITLE}: {home.folder / _FOLDER}.zip is still packed. Unpack it there and run again.")
    return None


COCO2017 = Source(
    key=_KEY,
    title=TITLE,
    edition="COCO 2017, training images and instance annotations",
    # The owners' terms are from stored copies of their page; the licences of the images are in the annotations.
    licence=Licence(
        name="CC BY 4.0 (annotations); Creative Commons licences by image",
        url="https://cocodataset.org/#termsofuse",
        statement=(
            "The annotations are under CC BY 4.0. The COCO Consortium does not own the images; using them must abide "
            "by Flickr's terms of use. Each image has a licence of its own (the column licence): most allow no "
            "commercial use, some no changes, and nearly all ask to credit the maker (the column flickr_url)."
        ),
        publish="gated",
    ),
    citation="""@inproceedings{lin2014microsoft,
  title = {Microsoft {COCO}: Common Objects in Context},
  author = {Lin, Tsung-Yi and Maire, Michael and Belongie, Serge and Hays, James and Perona, Pietro and Ramanan, Deva
    and Doll{\\'a}r, Piotr and Zitnick, C. Lawrence},
  booktitle = {European Conference on Computer Vision},
  year = {2014},
  doi = {10.1007/978-3-319-10602-1_48}
}""",
    obtain=Obtain(
        "https://cocodataset.org/#download",
        f"download train2017.zip (MD5 {_FILES[0].md5}) and annotations_trainval2017.zip (MD5 {_FILES[1].md5}), and "
        "unpack both in one folder",
        files=_FILES,
    ),
    classes=classes,
    # Less the 1,021 images without annotations.
    expected=lambda: {"train": Expected(118_287 - 1_021)},
    accepted=(
        _IMAGES.layout(
            f"{_FOLDER}/{_NAME_FORM} (or images/{_FOLDER}/) beside annotations/{FILE}",
            lambda home: _IMAGES.in_places(home, _FOLDER, f"images/{_FOLDER}"),
        ),
        _IMAGES.layout(
            f"a tar of that folder, {_FOLDER}.tar or .tar.gz, beside annotations/",
            lambda home: _IMAGES.in_archive(home, _FOLDER),
        ),
        _IMAGES.mirror(
            "a Hub mirror's data/train-*.parquet with the column image_id, beside annotations/",
            ("train",),
            _names,
            label="image_id",
            named=False,
        ),
        CopyLayout(f"{_FOLDER}.zip once it is unpacked", _zipped),
    ),
    columns=COLUMNS,
    shared_sides=(),
)
