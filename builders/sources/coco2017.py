"""COCO 2017's training images, and what their instance annotations say of them (`builders.sources.coco_content`).

The annotations are a file beside the images, `annotations/instances_train2017.json`. The 1,021 images that have none
are not indexed: nothing is known of them, and mirrors leave them out.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.errors import BuildError
from builders.sources.base import (
    Container,
    Expected,
    Licence,
    OtherDataError,
    PartitionIndex,
    PixelSizes,
    Source,
    Stray,
    partition_table,
)
from builders.sources.coco_content import COLUMNS, class_codes_of, classes, values_of
from builders.sources.coco_instances import FETCH, FILE, TITLE, Instances, read_instances
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers import parquet, parquet_files, tars
from builders.sources.readers.folders import (
    child_names,
    class_column,
    match_names,
    plain_reason,
    printable,
    relative,
)
from builders.sources.readers.layouts import Layout, Search

_KEY = "coco2017"
_PARTITION = "train"
_FOLDER = "train2017"

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
_NAME = r"^[0-9]{12}\.jpg$"
_WANTED = "<12 digits>.jpg"


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the training set: 118,287 images, less the 1,021 without annotations."""
    return {_PARTITION: Expected(118_287 - 1_021)}


def image_name(number: int) -> str:
    """Return the file name of an image by its number."""
    return f"{number:012d}.jpg"


def source_id(number: int) -> str:
    """Return the stable id of an image by its number."""
    return f"{_FOLDER}/{image_name(number)}"


@dataclass(frozen=True)
class _Images:
    """The images of a copy: their numbers, ascending, and where each is; and the files that are none.

    `where` names the layout and the place of the images, for messages.
    """

    where: str
    how: Container
    numbers: Sequence[int]
    files: Sequence[str]
    offsets: Sequence[int]
    sizes: Sequence[int]
    strays: tuple[Stray, ...] = ()


def _indexed(root: Path, home: Path, images: _Images) -> PartitionIndex:
    """Index the images of a copy that its annotations describe."""
    instances = _annotations(home, images.where)
    listed = np.array([image.id for image in instances.images], np.int64)
    numbers = np.array(images.numbers, np.int64)
    annotated = np.unique(instances.places)
    rows = annotated[np.isin(listed[annotated], numbers)]
    at = np.searchsorted(numbers, listed[rows]).tolist()
    table = partition_table(
        class_column(tuple(classes()), class_codes_of(instances)[rows]),
        _ids(listed[rows]),
        pa.array([images.files[place] for place in at], pa.string()),
        pa.array([images.offsets[place] for place in at], pa.int64()),
        pa.array([images.sizes[place] for place in at], pa.int64()),
        {name: values.take(pa.array(rows)) for name, values in values_of(instances).items()},
    )
    strangers = np.flatnonzero(~np.isin(numbers, listed)).tolist()
    unlisted = (
        Stray(f"{images.files[place]}", f"{image_name(numbers[place])} is not in {FILE}") for place in strangers
    )
    missing = _ids(np.setdiff1d(listed[annotated], numbers))
    return PartitionIndex(_PARTITION, images.where, images.how, table, (*images.strays, *unlisted), missing)


def _ids(numbers: np.ndarray) -> pa.Array:
    return pa.array([source_id(number) for number in numbers.tolist()], pa.string())


def _annotations(home: Path, where: str) -> Instances:
    """Read the annotations of a copy whose images are in `home`."""
    path = next((path for path in (home / "annotations" / FILE, home / FILE) if path.is_file()), None)
    if path is None:
        raise OtherDataError(
            f"{TITLE}: {home} has images ({where}) but no annotations/{FILE}. Unpack annotations_trainval2017.zip in "
            f"{home}, and give that folder with --{_KEY}."
        )
    instances = read_instances(path)
    for image in instances.images:
        if image.file_name != image_name(image.id):
            raise BuildError(
                f"{TITLE}: {path} calls the image {image.id} {printable(image.file_name)}, not "
                f"{image_name(image.id)}, so it is of another edition. {FETCH}."
            )
    return instances


def _folder(inner: str, root: Path, home: Path) -> PartitionIndex | None:
    folder = home / inner
    if not folder.is_dir():
        return None
    names = match_names(child_names(folder), _NAME)
    if not len(names.images):
        return None
    place = relative(folder, root)
    strays = tuple(Stray(f"{place}/{printable(name)}", plain_reason(folder, name, _WANTED)) for name in names.others)
    found = names.images.to_pylist()
    images = _Images(
        where=f"image files in {place}",
        how="file",
        numbers=[int(name[:12]) for name in found],
        files=[f"{place}/{name}" for name in found],
        offsets=[0] * len(found),
        sizes=[-1] * len(found),
        strays=strays,
    )
    return _indexed(root, home, images)


def _archive(root: Path, home: Path) -> PartitionIndex | None:
    archive = tars.find_archive(TITLE, home, _FOLDER)
    if archive is None:
        return None
    place = relative(archive.path, root)
    matched = tars.match_members(archive.members, _NAME)
    if not len(matched.names):
        raise BuildError(
            f"{TITLE}: {archive.path} has no images like {_FOLDER}/{_WANTED}. Give a tar of {_FOLDER} with --{_KEY}."
        )
    names = matched.names.to_pylist()
    images = _Images(
        where=f"archive {place}",
        how=archive.how,
        numbers=[int(name[:12]) for name in names],
        files=[place] * len(names),
        offsets=matched.offsets.to_pylist(),
        sizes=matched.sizes.to_pylist(),
        strays=tuple(Stray(f"{place}:{printable(name)}", f"not named {_WANTED}") for name in matched.others),
    )
    _refuse_twice(home, images)
    return _indexed(root, home, images)


def _parquet(root: Path, home: Path) -> PartitionIndex | None:
    """Index a Hub mirror that has COCO's numbers of the images, as detection-datasets/coco does in `image_id`."""
    paths = parquet_files.split_files(home, _PARTITION)
    if not paths:
        return None
    read = [(path, parquet.read_numbers(TITLE, path, "image_id")) for path in paths]
    rows = sorted((number, relative(path, root), row) for path, found in read for row, number in enumerate(found))
    images = _Images(
        where=f"Parquet files in {relative(paths[0].parent, root)}",
        how="parquet",
        numbers=[number for number, _, _ in rows],
        files=[file for _, file, _ in rows],
        offsets=[row for _, _, row in rows],
        sizes=[-1] * len(rows),
    )
    _refuse_twice(home, images)
    return _indexed(root, home, images)


def _refuse_twice(home: Path, images: _Images) -> None:
    numbers = np.array(images.numbers, np.int64)
    twice = np.flatnonzero(numbers[1:] == numbers[:-1])
    if twice.size:
        raise BuildError(
            f"{TITLE}: the image {image_name(numbers[twice[0]])} is twice in {home} ({images.where}). Remove one of "
            "the two."
        )


def _zipped(root: Path, home: Path) -> PartitionIndex | None:
    if (home / f"{_FOLDER}.zip").is_file():
        raise OtherDataError(f"{TITLE}: {home / _FOLDER}.zip is still packed. Unpack it there and run again.")
    return None


_SEARCH = Search(
    key=_KEY,
    title=TITLE,
    layouts=(
        Layout(_PARTITION, f"{_FOLDER}/{_WANTED} beside annotations/{FILE}", functools.partial(_folder, _FOLDER)),
        Layout(
            _PARTITION,
            f"images/{_FOLDER}/{_WANTED} beside annotations/",
            functools.partial(_folder, f"images/{_FOLDER}"),
        ),
        Layout(_PARTITION, f"a tar of that folder, {_FOLDER}.tar or .tar.gz, beside annotations/", _archive),
        Layout(
            _PARTITION, "a Hub mirror's data/train-*.parquet with the column image_id, beside annotations/", _parquet
        ),
        Layout(_PARTITION, f"{_FOLDER}.zip once it is unpacked", _zipped),
    ),
    expected=expected,
)

COCO2017 = Source(
    key=_SEARCH.key,
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
    layouts=_SEARCH.descriptions,
    classes=classes,
    expected=expected,
    scan=_SEARCH.scan,
    columns=COLUMNS,
    pixel_sizes=PixelSizes(),
)
