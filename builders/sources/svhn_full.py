"""SVHN's full numbers (format 1): the original house-number images, of any size, each with one or more digits."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from builders.sources import svhn
from builders.sources.base import Expected, PartitionIndex, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet
from builders.sources.readers.folders import class_column, with_prefix
from builders.sources.readers.layouts import Search, alike
from builders.sources.readers.patterns import MatchedFiles, Pattern

_KEY = "svhn_full"
_TITLE = "SVHN (full numbers)"
_CLASS = "number"
_NAME = r"[1-9][0-9]*\.png"
_NAME_FORM = "<number>.png"

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


_ANYWHERE = Pattern(_KEY, _TITLE, rf"(?:.*/)?(?P<file>{_NAME})", _NAME_FORM)


def _indexed(partition: str, pattern: Pattern, files: MatchedFiles | None) -> PartitionIndex | None:
    if files is None or not files.rows.num_rows:
        return None
    ids = with_prefix(f"{partition}/", files.groups["file"])
    table = files.table(class_column((_CLASS,), np.zeros(len(ids), np.int64)), ids)
    piece = pattern.partition(partition, files, table)
    return dataclasses.replace(piece, strays=tuple(s for s in piece.strays if not s.path.endswith(_BESIDE)))


def _folder(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    place = home / partition
    return _indexed(partition, _ANYWHERE, _ANYWHERE.in_folders(root, place) if place.is_dir() else None)


def _archive(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    pattern = Pattern(_KEY, _TITLE, rf"{partition}/(?P<file>{_NAME})", f"{partition}/{_NAME_FORM}")
    return _indexed(partition, pattern, pattern.in_archive(root, home, partition))


def _parquet(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    """Index the Hub's copy, which has the archives' names, in the archives' order."""
    return _indexed(partition, _ANYWHERE, _ANYWHERE.in_parquet(root, home, (partition,), _names_in))


def _names_in(path: Path) -> pa.Array:
    return parquet.read_shard(_TITLE, path, beside="digits", labelled=False).names


SVHN_FULL = Source(
    key=_KEY,
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
    classes=classes,
    expected=expected,
    search=Search(
        alike(
            ("train", "test"),
            (f"{{partition}}/{_NAME_FORM}", _folder),
            ("the original archive {partition}.tar.gz (or {partition}.tar, read in place)", _archive),
            ("the Hub's full_numbers/{partition}-*.parquet (also in data/)", _parquet),
        )
    ),
)
