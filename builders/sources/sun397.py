"""SUN397: scenes of the 397 categories of the SUN database that have at least 100 images."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.errors import BuildError, one_line
from builders.sources.base import Expected, Licence, OtherDataError, PartitionIndex, PixelSizes, Source, Stray
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import tars
from builders.sources.readers.folders import (
    ClassFolder,
    child_names,
    class_codes,
    class_column,
    plain_reason,
    printable,
    relative,
    scan_class_folders,
    strays_between,
)
from builders.sources.readers.label_names import LabelNameMirror
from builders.sources.readers.layouts import Layout, Search
from builders.storage.text_files import read_lines
from taxonomy import tables

_KEY = "sun397"
_TITLE = "SUN397"
_PARTITION = "images"
_FOLDER = "SUN397"
_CLASS_LIST = "ClassName.txt"
_FLAG = f"Give a copy of SUN397 with --{_KEY}"

# All names have this form, even those of images that are not JPEG: the owners' page says that they are in jpg, png or
# gif format, and mmpretrain (datasets/sun397.py) lists 119 images whose content differs from their extension.
_NAME = r"sun_[a-z]+\.jpg"
_IMAGE = re.compile(_NAME, re.ASCII)
_WANTED = "sun_<letters>.jpg"

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

_SEPARATORS = re.compile(r"[/_\- ]+")


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names by category, in label order."""
    return {row.category: row.name for row in tables.sun397()}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the size of the only partition, which has all images; the owners' training and test sets overlap."""
    counts = {row.category: row.images for row in tables.sun397()}
    return {_PARTITION: Expected(sum(counts.values()), counts)}


def category_of(name: str) -> str | None:
    """Return the category of a mirror's spelling, with or without the letter; None if it is not a category.

    Mirrors write "/b/balcony/exterior" as "b_balcony_exterior", "balcony exterior" and the like.
    """
    return _spellings().get(_plain(name))


def _plain(name: str) -> str:
    return _SEPARATORS.sub(" ", name).strip()


@functools.cache
def _spellings() -> Mapping[str, str]:
    return {_plain(text): category for category, name in classes().items() for text in (category, name)}


def _prefix(category: str) -> str:
    """Return the part before the file name in the ids of a category's images."""
    return f"{category[1:]}/"


def _tree(root: Path, folder: Path) -> PartitionIndex | None:
    """Index category folders that are nested as in the archive, two or three levels deep."""
    if not folder.is_dir() or not any(len(name) == 1 for name in child_names(folder)):
        return None
    inner = [category[1:] for category in classes() if (folder / category[1:]).is_dir()]
    if not inner:
        return None
    _check_class_list(folder / _CLASS_LIST)
    strays = strays_between(root, folder, [*inner, _CLASS_LIST], "a category folder")
    return _indexed(root, folder, [(f"/{name}", folder / name) for name in inner], strays)


def _below(root: Path, home: Path) -> PartitionIndex | None:
    return _tree(root, home / _FOLDER)


def _split_folders(root: Path, home: Path) -> PartitionIndex | None:
    """Index a mirror that divides the images, with category folders side by side or nested as in the archive."""
    found = [piece for split in _SPLITS if (piece := _split_folder(root, home / split, split)) is not None]
    if not found:
        return None
    return PartitionIndex(
        _PARTITION,
        " and ".join(piece.layout for piece in found),
        "file",
        pa.concat_tables(piece.table for piece in found),
        tuple(stray for piece in found for stray in piece.strays),
    )


def _split_folder(root: Path, folder: Path, split: str) -> PartitionIndex | None:
    for place in (folder, folder / split):
        paths = [place / name for name in child_names(place)] if place.is_dir() else []
        folders = [(category, path) for path in paths if (category := category_of(path.name)) and path.is_dir()]
        if folders:
            strays = strays_between(root, place, [path.name for _, path in folders], "a category folder")
            return _indexed(root, place, folders, strays)
        if (piece := _tree(root, place)) is not None:
            return piece
    return None


def _indexed(root: Path, place: Path, folders: Sequence[tuple[str, Path]], strays: list[Stray]) -> PartitionIndex:
    """Index category folders, and refuse a copy of another edition or without images of SUN397."""
    table, inside = scan_class_folders(
        _TITLE,
        root,
        [ClassFolder(category, path, _prefix(category), f"^{_NAME}$") for category, path in folders],
        tuple(classes()),
        lambda folder, name: plain_reason(folder.path, name, _WANTED),
    )
    _refuse_other_edition([stray.path for stray in strays if _holds_images(root / stray.path)], place)
    if not table.num_rows:
        raise OtherDataError(f"{_TITLE}: the category folders in {place} hold no images named {_WANTED}. {_FLAG}.")
    return PartitionIndex(
        _PARTITION, f"category folders in {relative(place, root)}", "file", table, tuple(strays + inside)
    )


def _holds_images(folder: Path) -> bool:
    """Whether a folder or one of its subfolders has images of the SUN database."""
    if not folder.is_dir():
        return False
    names = child_names(folder)
    return any(map(_IMAGE.fullmatch, names)) or any(
        any(map(_IMAGE.fullmatch, child_names(folder / name))) for name in names if (folder / name).is_dir()
    )


def _refuse_other_edition(others: Sequence[str], place: Path) -> None:
    """Refuse a copy with images of other categories: in a larger edition a category may have other images, too."""
    if others:
        raise BuildError(
            f"{_TITLE}: {place} has images of {len(others):,} categories beside the {len(classes())}, first "
            f"{others[0]}, as larger editions of the SUN database have. {_FLAG}."
        )


def _check_class_list(path: Path) -> None:
    if not path.is_file():
        return
    found = [name for line in read_lines(path, "Unpack the archive again.") for name in line.split()]
    if set(found) != set(classes()):
        wrong = min(set(found) ^ set(classes()))
        raise BuildError(
            f"{_TITLE}: {path} does not list its {len(classes())} categories: of {len(found):,}, {one_line(wrong)} "
            f"differs. {_FLAG}."
        )


def _archive(root: Path, home: Path) -> PartitionIndex | None:
    """Index the images below `SUN397/` in an archive."""
    archive = tars.find_archive(_TITLE, home, _FOLDER)
    if archive is None:
        return None
    place, code_of = relative(archive.path, root), class_codes(tuple(classes()))
    images: list[tars.Member] = []
    ids, codes = [], []
    strays: list[Stray] = []
    others = set()
    for member in archive.members:
        category = "/" + member.folder.removeprefix("./").removeprefix(f"{_FOLDER}/")
        if _IMAGE.fullmatch(member.name) is None:
            if member.name != _CLASS_LIST:
                name = printable(f"{member.folder}/{member.name}".lstrip("/"))
                strays.append(Stray(f"{place}:{name}", f"not named {_WANTED}"))
        elif (code := code_of.get(category)) is None:
            others.add(printable(member.folder))
        else:
            images.append(member)
            ids.append(_prefix(category) + member.name)
            codes.append(code)
    if not images:
        raise BuildError(f"{_TITLE}: {archive.path} has no images like {_FOLDER}/a/abbey/{_WANTED}. {_FLAG}.")
    _refuse_other_edition(sorted(others), archive.path)
    table = archive.table(root, class_column(tuple(classes()), np.array(codes)), ids, images)
    return PartitionIndex(_PARTITION, f"archive {place}", archive.how, table, tuple(strays))


_MIRROR = LabelNameMirror(
    _KEY,
    _TITLE,
    _PARTITION,
    classes,
    class_of=category_of,
    prefix=_prefix,
    name=rf"^(?:.*/)?(?P<name>{_NAME})$",
    example="sun_aaalbzqrimafwbiv.jpg",
    splits=_SPLITS,
)

_SEARCH = Search(
    key=_KEY,
    title=_TITLE,
    layouts=(
        Layout(_PARTITION, f"{_FOLDER}/a/abbey/{_WANTED}", _below),
        Layout(_PARTITION, "the folders a, b, c and so on themselves", _tree),
        Layout(_PARTITION, f"a mirror's train/<category>/{_WANTED} and test/ (also val/)", _split_folders),
        Layout(_PARTITION, f"the original archive {_FOLDER}.tar.gz (or {_FOLDER}.tar, read in place)", _archive),
        Layout(_PARTITION, "a Hub mirror's data/train-*.parquet, validation-* and test-*", _MIRROR.find),
    ),
    expected=expected,
)

SUN397 = Source(
    key=_SEARCH.key,
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
    obtain=Obtain(
        "https://vision.princeton.edu/projects/2010/SUN/",
        "download SUN397.tar.gz; it can stay packed",
        files=(_PUBLISHED,),
        mirror=Mirror("", {_PARTITION: (_SPLITS,)}),
    ),
    layouts=_SEARCH.descriptions,
    classes=classes,
    expected=expected,
    scan=_SEARCH.scan,
    pixel_sizes=PixelSizes(),
)
