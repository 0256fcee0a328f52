"""SUN397: scenes of the 397 categories of the SUN database that have at least 100 images."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from builders.errors import BuildError
from builders.sources.base import CopyLayout, Expected, Home, Licence, PartitionIndex, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers.folders import by_spelling, child_names, escape_name
from builders.sources.readers.patterns import ClassFolders
from builders.storage.folders import files_below
from taxonomy import tables

_KEY = "sun397"
_TITLE = "SUN397"
_FOLDER = "SUN397"

# All names have this form, even those of images that are not JPEG: the owners' page says that they are in jpg, png or
# gif format, and mmpretrain (datasets/sun397.py) lists 119 images whose content differs from their extension.
_NAME = r"sun_[a-z]+\.jpg"
_NAME_FORM = "sun_<letters>.jpg"

# Mirrors divide the images. The one on Kaggle (sun397-50-50) has the 50 training and 50 test images a class of one of
# the owners' partitions, in train/train and test/test; so has tanganke/sun397 on the Hub. These are 39,700 of the
# 108,754 images. 1aurent/SUN397 has all; judged by its size, with the bytes of the owners' files.
_SPLITS = ("train", "validation", "val", "test")

# The address and the MD5 are torchvision's (datasets/sun397.py), the size and the SHA-256 those of tensorflow/datasets
# (url_checksums/sun397.txt).
_PUBLISHED = OwnerFile(
    "SUN397.tar.gz",
    39_077_296_924,
    url="http://vision.princeton.edu/projects/2010/SUN/SUN397.tar.gz",
    md5="8ca2778205c41d23104230ba66911c7a",
    sha256="f404130965a7ad77bed5ececc71e720ab50f3cc1e1bb257257610d38f3b928ec",
)


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names by category, in label order."""
    return {row.category: row.name for row in tables.sun397()}


def category_of(name: str) -> str | None:
    """Return the category in a mirror's spelling, with or without the letter; None for any other text."""
    return _spelled()(name)


@functools.cache
def _spelled() -> Callable[[str], str | None]:
    return by_spelling(classes())


_IMAGES = ClassFolders(
    rf"(?:{_FOLDER}/)?(?P<class_id>(?:[a-z]/)?[^/]+(?:/[^/]+)?)/(?P<image>{_NAME})",
    f"{_FOLDER}/a/abbey/{_NAME_FORM}",
    child="a category folder",
    beside=("ClassName.txt",),  # the owners' list of categories
    class_of=lambda folder: category_of(folder.removeprefix(f"{_FOLDER}/")),
    prefix=lambda category: f"{category[1:]}/",
)


def _tree(home: Home, place: Path) -> PartitionIndex | None:
    """Index category folders that are nested as in the archive, two or three levels deep."""
    if not place.is_dir() or not any(len(name) == 1 for name in child_names(place)):
        return None
    return _indexed(home, place, [category[1:] for category in classes() if (place / category[1:]).is_dir()])


def _split_folders(home: Home) -> PartitionIndex | None:
    """Index a mirror that divides the images, with category folders side by side or nested as in the archive."""
    found = [partition for split in _SPLITS if (partition := _split_folder(home, split)) is not None]
    if not found:
        return None
    return dataclasses.replace(
        found[0],
        layout=" and ".join(partition.layout for partition in found),
        table=pa.concat_tables(partition.table for partition in found),
        strays=tuple(stray for partition in found for stray in partition.strays),
    )


def _split_folder(home: Home, split: str) -> PartitionIndex | None:
    for place in (home.folder / split, home.folder / split / split):
        children = child_names(place) if place.is_dir() else []
        folders = [name for name in children if category_of(name) and (place / name).is_dir()]
        partition = _indexed(home, place, folders) if folders else _tree(home, place)
        if partition is not None:
            return partition
    return None


def _indexed(home: Home, place: Path, folders: Sequence[str]) -> PartitionIndex | None:
    """Index category folders, None if there are none; refuse a copy of another edition or without images of SUN397."""
    if not folders:
        return None
    partition = _IMAGES.of_folders(home, place, folders, "category folders")
    others = [stray.path for stray in partition.strays if stray.reason == f"not {_IMAGES.child}"]
    _refuse_other_edition([path for path in others if _holds_images(home.root / path)], place)
    if not partition.table.num_rows:
        raise home.other_data(f"the category folders in {place} hold no images named {_NAME_FORM}")
    return partition


def _holds_images(folder: Path) -> bool:
    """Whether a folder has images of the SUN database, at any depth."""
    names = (path.rpartition("/")[2] for path in files_below(folder)) if folder.is_dir() else ()
    return any(re.fullmatch(_NAME, name, re.ASCII) for name in names)


def _refuse_other_edition(other_categories: Sequence[str], place: Path) -> None:
    """Refuse a copy with images of other categories: in a larger edition a category may have other images, too."""
    if other_categories:
        raise BuildError(
            f"{_TITLE}: {place} has images of {len(other_categories):,} categories beside the {len(classes())}, first "
            f"{other_categories[0]}, as larger editions of the SUN database have. Give a copy of SUN397 with --{_KEY}."
        )


def _archive(home: Home) -> PartitionIndex | None:
    """Index the images of an archive, below `SUN397/` or not."""
    tree = _IMAGES.in_archive(home, _FOLDER)
    if tree is None:
        return None
    folders = tree.column("class_id").unique().to_pylist()
    others = sorted(escape_name(folder) for folder in folders if not category_of(folder))
    _refuse_other_edition(others, tree.place)
    return _IMAGES.indexed(tree)


SUN397 = Source(
    key=_KEY,
    title=_TITLE,
    edition="SUN397 (2010)",
    # The statement is from a stored copy of the page.
    licence=Licence(
        name="for research purposes only",
        url="https://vision.princeton.edu/projects/2010/SUN/",
        statement=(
            "The owners' page provides the images for research purposes only; it names no licence and says nothing on "
            "passing them on. They were found with search engines on the web."
        ),
        publish="ids-only",
    ),
    citation="""@inproceedings{xiao2010sun,
  title = {{SUN} Database: Large-scale Scene Recognition from Abbey to Zoo},
  author = {Xiao, Jianxiong and Hays, James and Ehinger, Krista A. and Oliva, Aude and Torralba, Antonio},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  year = {2010},
  doi = {10.1109/CVPR.2010.5539970}
}""",
    obtain=Obtain.packed(
        "https://vision.princeton.edu/projects/2010/SUN/", _PUBLISHED, mirror=Mirror("", {"images": (_SPLITS,)})
    ),
    classes=classes,
    # All images; the owners' training and test sets overlap.
    expected=lambda: {"images": Expected.of({row.category: row.images for row in tables.sun397()})},
    accepted=(
        CopyLayout(f"{_FOLDER}/a/abbey/{_NAME_FORM}", lambda home: _tree(home, home.folder / _FOLDER)),
        CopyLayout("the folders a, b, c and so on themselves", lambda home: _tree(home, home.folder)),
        CopyLayout(f"a mirror's train/<category>/{_NAME_FORM} and test/ (also val/)", _split_folders),
        CopyLayout(f"the original archive {_FOLDER}.tar.gz (or {_FOLDER}.tar, read in place)", _archive),
        _IMAGES.mirror(
            "a Hub mirror's data/train-*.parquet, validation-* and test-*",
            _SPLITS,
            # Names in the archive have no slash before a category.
            lambda shard: shard.in_label_folders(_KEY, lambda name: (category_of(name) or "")[1:] or None),
        ),
    ),
    shared_sides=(),
)
