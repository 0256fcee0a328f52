"""COCO 2017's training images, with columns from their instance annotations (`builders.sources.coco_annotations`).

The annotations are a file beside the images, `annotations/instances_train2017.json`. The 1,021 images that have none
are not indexed: nothing is known of them, and mirrors leave them out.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.sources.base import Expected, Licence, OtherDataError, PartitionIndex, PixelSizes, Source
from builders.sources.coco_annotations import (
    COLUMNS,
    FILE,
    TITLE,
    Instances,
    class_codes_of,
    classes,
    read_instances,
    values_of,
    wrong,
)
from builders.sources.obtain import Obtain, OwnerFile
from builders.sources.readers import parquet
from builders.sources.readers.folders import class_column, escape_name
from builders.sources.readers.layouts import CopyLayout, Search
from builders.sources.readers.patterns import MatchedFiles, Pattern

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
_NAME_FORM = "<12 digits>.jpg"


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


_IMAGES = Pattern(_KEY, TITLE, r"(?:.*/)?(?P<number>[0-9]{12})\.jpg", _NAME_FORM)


def _indexed(home: Path, files: MatchedFiles | None) -> PartitionIndex | None:
    """Index the images of a copy that its annotations describe."""
    if files is None or not files.rows.num_rows:
        return None
    instances = _annotations(home, files.tree.description)
    listed = np.array([image.id for image in instances.images], np.int64)
    annotated = np.zeros(len(listed), np.bool_)
    annotated[instances.positions] = True
    numbers = pc.cast(files.groups["number"], pa.int64()).to_numpy()
    rows = np.minimum(np.searchsorted(listed, numbers), len(listed) - 1)
    known = listed[rows] == numbers
    rows = rows[known]
    # What is listed and has no annotation is neither an image of the source nor a stray.
    files = files.filter(pa.array(known), f"its number is not in {FILE}").select(pa.array(annotated[rows]))
    rows = rows[annotated[rows]]
    columns = {name: values.take(pa.array(rows)) for name, values in values_of(instances).items()}
    table = files.table(class_column(tuple(classes()), class_codes_of(instances)[rows]), _ids(listed[rows]), columns)
    return _IMAGES.partition(_PARTITION, files, table, missing=_ids(np.setdiff1d(listed[annotated], numbers)))


def _ids(numbers: np.ndarray) -> pa.Array:
    return pa.array([source_id(number) for number in numbers.tolist()], pa.string())


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


def _folder(inner: str, root: Path, home: Path) -> PartitionIndex | None:
    folder = home / inner
    return _indexed(home, _IMAGES.in_folders(root, folder) if folder.is_dir() else None)


def _mirrored(path: Path) -> pa.Array:
    """Read COCO's numbers of a mirror's images, which detection-datasets/coco has in `image_id`, as file names."""
    shard = parquet.read_shard(TITLE, path, label="image_id", named=False)
    parquet.refuse_rows(TITLE, path, pc.is_null(shard.labels), "image_id has no number", shard)
    return pa.array([image_name(number) for number in shard.labels.to_pylist()], pa.string())


def _zipped(root: Path, home: Path) -> PartitionIndex | None:
    if (home / f"{_FOLDER}.zip").is_file():
        raise OtherDataError(f"{TITLE}: {home / _FOLDER}.zip is still packed. Unpack it there and run again.")
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
    expected=expected,
    search=Search(
        (
            *(
                CopyLayout(
                    _PARTITION, f"{folder}/{_NAME_FORM} beside annotations/{FILE}", functools.partial(_folder, folder)
                )
                for folder in (_FOLDER, f"images/{_FOLDER}")
            ),
            CopyLayout(
                _PARTITION,
                f"a tar of that folder, {_FOLDER}.tar or .tar.gz, beside annotations/",
                lambda root, home: _indexed(home, _IMAGES.in_archive(root, home, _FOLDER)),
            ),
            CopyLayout(
                _PARTITION,
                "a Hub mirror's data/train-*.parquet with the column image_id, beside annotations/",
                lambda root, home: _indexed(home, _IMAGES.in_parquet(root, home, (_PARTITION,), _mirrored)),
            ),
            CopyLayout(_PARTITION, f"{_FOLDER}.zip once it is unpacked", _zipped),
        )
    ),
    columns=COLUMNS,
    pixel_sizes=PixelSizes(),
)
