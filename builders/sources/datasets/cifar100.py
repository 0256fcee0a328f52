"""CIFAR-100: 100 classes in 20 superclasses, 32 x 32 pixels, 500 training and 100 test images a class."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.sources.base import (
    RGB32,
    CopyLayout,
    Expected,
    Home,
    Licence,
    OtherDataError,
    PartitionIndex,
    Source,
)
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import cifar, parquet
from builders.sources.readers.arrays import in_owners_order, mirrored
from builders.sources.readers.folders import child_names
from taxonomy import tables

_TITLE = "CIFAR-100"
_FOLDER = "cifar-100-python"
_ARCHIVE = f"{_FOLDER}.tar.gz"
# The archive of the python version: its size as mirrors state it, and the MD5 that torchvision checks.
_PUBLISHED = OwnerFile(
    _ARCHIVE,
    169_001_437,
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    md5="eb9058c3a382ffc7106e4002c42a8d85",
)
_KEYS = ("coarse_labels", "data", "fine_labels")

# The Hub's mirror (uoft-cs/cifar100) misspells one name; its label numbers are the owner's.
_MIRROR_SPELLING = {"crab": "cra"}

Int64 = npt.NDArray[np.int64]


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the names of the fine classes by id, in label order."""
    return {row.fine: row.fine.replace("_", " ") for row in tables.cifar100()}


@functools.cache
def coarse_classes() -> tuple[str, ...]:
    """Return the 20 superclasses in label order, which is alphabetical."""
    return tuple(sorted({row.coarse for row in tables.cifar100()}))


@functools.cache
def _coarse_of_fine() -> Int64:
    return np.array([coarse_classes().index(row.coarse) for row in tables.cifar100()], dtype=np.int64)


def _folder(home: Home) -> PartitionIndex | None:
    place = home.folder / home.partition
    _refuse_files_by_name(home, place)
    return _indexed(home, place) if place.is_file() else None


def _refuse_files_by_name(home: Home, place: Path) -> None:
    """Refuse class folders of image files (`train/apple/apple_s_000022.png`), which do not say an image's place.

    Ids are places in the owner's file, whose order is random within a class, too. Sorted names that are given to the
    places of their class have every label right and, of 12 pairs of places that hold equal pixels (ciFAIR), none.
    """
    if place.is_dir() and len(classes().keys() & {*child_names(place)}) > len(classes()) // 2:
        raise OtherDataError(
            f"{_TITLE}: {place} has class folders of image files, and an id here is an image's place in the owner's "
            f"file {home.partition}, which no file name tells. Give {_ARCHIVE} or the Hub's Parquet files with "
            f"--{home.source.key}."
        )


def _archive(home: Home) -> PartitionIndex | None:
    archive = home.folder / _ARCHIVE
    return _indexed(home, archive / _FOLDER / home.partition) if archive.is_file() else None


def _indexed(home: Home, place: Path) -> PartitionIndex:
    batches = cifar.read_batches(_TITLE, [place], _KEYS, hint=", which CIFAR-10's files lack, too")
    return cifar.indexed(home, cifar.named(home, [place], "pickle"), batches, _codes)


def _codes(batch: cifar.CifarFile) -> Int64:
    """Return the fine labels of a pickle, with which the coarse ones must agree."""
    fine = batch.labels("fine_labels", len(classes()))
    coarse = batch.labels("coarse_labels", len(coarse_classes()))
    wrong = np.flatnonzero(_coarse_of_fine()[fine] != coarse)
    if len(wrong):
        row = int(wrong[0])
        names = list(classes())[int(fine[row])], coarse_classes()[int(coarse[row])]
        raise batch.refused(f"has the fine label {names[0]}, but the coarse label {names[1]} of image {row:,}")
    return fine


def _parquet_codes(path: Path) -> Int64:
    """Return the fine labels of one file of the mirror, which keeps the order of the owner's pickle."""
    fine = parquet.read_shard(_TITLE, path, image="img", label="fine_label", named=False)
    coarse = parquet.read_shard(_TITLE, path, image="img", label="coarse_label", named=False)
    names = tuple(classes())
    misspelt = tuple(_MIRROR_SPELLING.get(name, name) for name in names)
    fine.refuse_other_labels(misspelt if fine.label_names == misspelt else names)
    coarse.refuse_other_labels(coarse_classes())
    codes: Int64 = fine.labels.to_numpy()
    wrong = pa.array(_coarse_of_fine()[codes] != coarse.labels.to_numpy())
    coarse.refuse(wrong, "the coarse label {label} does not fit the fine label")
    return codes


@functools.cache
def _order(partition: str) -> str:
    return hashlib.sha256(bytes(tables.cifar_order("cifar100", partition))).hexdigest()


LICENCE = Licence(
    name="none stated",
    url="https://www.cs.toronto.edu/~kriz/cifar.html",
    statement=(
        "The owners' page states no licence; it asks that the technical report be cited. The images are labelled "
        "subsets of 80 Million Tiny Images, which were collected from the web and which their owners withdrew in "
        "2020."
    ),
    publish="ids-only",
)
"""Of CIFAR-10, too."""

CITATION = """@techreport{krizhevsky2009learning,
  title = {Learning Multiple Layers of Features from Tiny Images},
  author = {Krizhevsky, Alex},
  institution = {University of Toronto},
  year = {2009}
}"""
"""Of CIFAR-10, too."""

CIFAR100 = Source(
    key="cifar100",
    title=_TITLE,
    edition="CIFAR-100, python version (2009)",
    licence=LICENCE,
    citation=CITATION,
    obtain=Obtain.packed(
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        _PUBLISHED,
        mirror=Mirror("hf://datasets/uoft-cs/cifar100/cifar100", {"train": (("train",),), "test": (("test",),)}),
    ),
    classes=classes,
    expected=lambda: {"train": Expected.each(classes(), 500), "test": Expected.each(classes(), 100)},
    accepted=(
        CopyLayout(f"the pickle {_FOLDER}/{{partition}}", in_owners_order(_folder, _order)),
        CopyLayout(f"the archive {_ARCHIVE}", in_owners_order(_archive, _order)),
        CopyLayout(
            "the Hub's cifar100/{partition}-*.parquet (also in data/)",
            in_owners_order(lambda home: mirrored(home, _parquet_codes), _order),
        ),
    ),
    arrays=RGB32,
)
