"""SVHN's full numbers (format 1): the original house-number images, of any size, each with one or more digits."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources import svhn
from builders.sources.base import Expected, PartitionIndex, Source, Stray, partition_table
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet, parquet_files, tars
from builders.sources.readers.folders import (
    child_names,
    class_column,
    joined,
    match_names,
    plain_reason,
    printable,
    relative,
)
from builders.sources.readers.layouts import Search, alike

_KEY = "svhn_full"
_TITLE = "SVHN (full numbers)"
_CLASS = "number"
_NAME = r"[1-9][0-9]*\.png"
_IMAGE = re.compile(_NAME, re.ASCII)
_WANTED = "<number>.png"

# Addresses, sizes and SHA-256 are those of the Hub's loader (huggingface/datasets, datasets/svhn/dataset_infos.json).
_FILES = (
    OwnerFile(
        "train.tar.gz",
        404_141_560,
        url="http://ufldl.stanford.edu/housenumbers/train.tar.gz",
        sha256="4b17bb33b6cd8f963493168f80143da956f28ec406cc12f8e5745a9f91a51898",
    ),
    OwnerFile(
        "test.tar.gz",
        276_555_967,
        url="http://ufldl.stanford.edu/housenumbers/test.tar.gz",
        sha256="57ac9ceb530e4aa85b55d991be8fc49c695b3d71c6f6a88afea86549efde7fb5",
    ),
)

# The other files of the archives: the digits and their boxes (HDF5), and the owners' script that draws the boxes.
# Names and tree are those that many public repositories list.
_BESIDE = ("digitStruct.mat", "see_bboxes.m")


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the one class: an image shows several digits, so none of them is its class."""
    return {_CLASS: "house number"}


@functools.cache
def expected() -> Mapping[str, Expected]:
    """Return the sizes of the partitions, from the Hub's copy; the `extra` images are not indexed."""
    return {
        partition: Expected(images, {_CLASS: images}) for partition, images in (("train", 33_402), ("test", 13_068))
    }


def _codes(count: int) -> pa.DictionaryArray:
    return class_column((_CLASS,), np.zeros(count, np.int64))


def _folder(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    folder = home / partition
    if not folder.is_dir():
        return None
    names = match_names(child_names(folder), f"^{_NAME}$")
    if not len(names.images):
        return None
    place = relative(folder, root)
    strays = tuple(
        Stray(f"{place}/{printable(name)}", plain_reason(folder, name, _WANTED))
        for name in names.others
        if name not in _BESIDE
    )
    ids = joined(f"{partition}/", names.images)
    table = partition_table(_codes(len(ids)), ids, joined(f"{place}/", names.images))
    return PartitionIndex(partition, f"image files in {place}", "file", table, strays)


def _archive(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    archive = tars.find_archive(_TITLE, home, partition)
    if archive is None:
        return None
    inside = [member for member in archive.members if member.folder.removeprefix("./") == partition]
    images = [member for member in inside if _IMAGE.fullmatch(member.name)]
    if not images:
        raise BuildError(
            f"{_TITLE}: {archive.path} has no images like {partition}/{_WANTED}. Give a copy of SVHN's format 1 with "
            f"--{_KEY}."
        )
    place = relative(archive.path, root)
    kept = set(images)
    strays = tuple(
        Stray(f"{place}:{printable(f'{member.folder}/{member.name}'.lstrip('/'))}", f"not {partition}/{_WANTED}")
        for member in archive.members
        if member not in kept and member.name not in _BESIDE
    )
    table = archive.table(root, _codes(len(images)), [f"{partition}/{member.name}" for member in images], images)
    return PartitionIndex(partition, f"archive {place}", archive.how, table, strays)


def _parquet(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    files = parquet_files.split_files(home, partition)
    return parquet.indexed(partition, root, files, functools.partial(_parquet_shard, partition))


def _parquet_shard(partition: str, root: Path, path: Path) -> pa.Table:
    """Index one file of the Hub's copy, which has the archives' names, in the archives' order."""
    shard = parquet.read_names(_TITLE, path, beside="digits")
    names = pc.extract_regex(shard.names, rf"^(?:.*/)?(?P<name>{_NAME})$")
    parquet.refuse_rows(_TITLE, path, pc.is_null(names), "image.path is {name}, not like 1.png", shard)
    ids = joined(f"{partition}/", pc.struct_field(names, "name"))
    return parquet.shard_table(root, path, (_CLASS,), np.zeros(len(ids), np.int64), ids)


_SEARCH = Search(
    key=_KEY,
    title=_TITLE,
    layouts=alike(
        ("train", "test"),
        (f"{{partition}}/{_WANTED}", _folder),
        ("the original archive {partition}.tar.gz (or {partition}.tar, read in place)", _archive),
        ("the Hub's full_numbers/{partition}-*.parquet (also in data/)", _parquet),
    ),
    expected=expected,
)

SVHN_FULL = Source(
    key=_SEARCH.key,
    title=_TITLE,
    edition="SVHN, format 1: full numbers (2011)",
    licence=svhn.LICENCE,
    citation=svhn.CITATION,
    obtain=Obtain(
        svhn.LICENCE.url,
        "download format 1, train.tar.gz and test.tar.gz; they can stay packed",
        files=_FILES,
        mirror=Mirror(
            "hf://datasets/ufldl-stanford/svhn/full_numbers", {"train": (("train",),), "test": (("test",),)}
        ),
    ),
    layouts=_SEARCH.descriptions,
    classes=classes,
    expected=expected,
    scan=_SEARCH.scan,
)
