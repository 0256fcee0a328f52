"""CIFAR-10: ten classes, 32 x 32 pixels, 5,000 training and 1,000 test images a class."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.sources.base import (
    RGB32,
    CopyLayout,
    Expected,
    Home,
    PartitionIndex,
    Source,
    partition_table,
)
from builders.sources.datasets.cifar100 import CITATION, LICENCE
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import cifar, parquet
from builders.sources.readers.arrays import mirrored, position_ids
from builders.sources.readers.folders import child_names, escape_name, relative
from taxonomy import tables

_TITLE = "CIFAR-10"
_CLASSES = tables.cifar10()

# The MD5 is on the owner's page and in torchvision (datasets/cifar.py); the size and the SHA-256 are those of
# tensorflow/datasets.
_PUBLISHED = OwnerFile(
    "cifar-10-python.tar.gz",
    170_498_071,
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    md5="c58f30108f718f92721af3b95e74349a",
    sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
)

_VERSIONS = {
    "python": ("cifar-10-python.tar.gz", "cifar-10-batches-py", ""),
    "binary": ("cifar-10-binary.tar.gz", "cifar-10-batches-bin", cifar.BINARY),
}
"""Archive, folder and ending of the names of the owner's two versions."""

_BATCHES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}

_NUMBERED = re.compile(r"\d{1,5}\.(png|jpe?g)", re.ASCII | re.IGNORECASE)

Int64 = npt.NDArray[np.int64]


@functools.cache
def classes() -> Mapping[str, str]:
    """Return the ten classes in label order, which is alphabetical."""
    return {name: name for name in _CLASSES}


def _names(home: Home, version: str) -> list[str]:
    return [name + _VERSIONS[version][2] for name in _BATCHES[home.partition]]


def _folder(version: str, home: Home) -> PartitionIndex | None:
    places = [home.folder / name for name in _names(home, version)]
    found = [place for place in places if place.is_file()]
    if not found:
        return None
    if missing := [place.name for place in places if place not in found]:
        raise home.other_data(f"{home.folder} has {found[0].name} and lacks {missing[0]}")
    return _indexed(home, places, version)


def _archive(version: str, home: Home) -> PartitionIndex | None:
    name, folder, _ = _VERSIONS[version]
    archive = home.folder / name
    return (
        _indexed(home, [archive / folder / one for one in _names(home, version)], version)
        if archive.is_file()
        else None
    )


def _indexed(home: Home, places: Sequence[Path], version: str) -> PartitionIndex:
    keys, hint = ("data", "labels"), ", which CIFAR-100's files lack, too"
    first = 0

    def codes(batch: cifar.CifarFile) -> Int64:
        nonlocal first
        labels = batch.labels("labels", len(_CLASSES))
        _refuse_other_order(home, labels, first, batch.place)
        first += len(labels)
        return labels

    kind = "pickle" if version == "python" else "binary file"
    return cifar.indexed(home, cifar.named(home, places, kind), cifar.read_batches(_TITLE, places, keys, hint), codes)


def _refuse_other_order(home: Home, labels: Int64, first: int, place: Path) -> None:
    """Refuse images in another order than the owner's, by which they are identified, as their labels show it."""
    order = np.array(tables.cifar_order("cifar10", home.partition)[first : first + len(labels)])
    wrong = np.flatnonzero(order != labels[: len(order)])
    if len(wrong) or len(order) < len(labels):
        row = int(wrong[0]) if len(wrong) else len(order)
        where = f"image {row:,} of {place} is of the class {_CLASSES[labels[row]]}"
        expected = f"and the owner's of {_CLASSES[order[row]]}" if len(wrong) else "and the owner has fewer images"
        raise home.other_data(f"{where}, {expected}; an image is identified by its place in the owner's order")


def _class_folders(home: Home) -> PartitionIndex | None:
    """Index PNG files that are numbered in the owner's order within their class, from 0 or from 1."""
    folder = home.folder / home.partition
    if not folder.is_dir() or not classes().keys() <= {*child_names(folder)}:
        return None
    files = _numbered_files(home, folder)
    numbers = {name: np.array([int(file.partition(".")[0]) for file in of]) for name, of in files.items()}
    first = 0 if any(of.min() == 0 for of in numbers.values()) else 1
    places = tables.cifar_places("cifar10", home.partition)
    for label, (name, of) in enumerate(numbers.items()):
        if len(np.unique(of)) < len(of) or of.max() - first >= len(places[label]):
            raise home.other_data(
                f"{folder / name} has a number twice or above {len(places[label]) - 1 + first:,}, counted from {first}"
            )
    if first and not _shows_first(numbers, places):
        raise home.other_data(
            f"{folder} has no image 0 and in most classes no image 1, so that its numbers may count from 0 or from 1, "
            "and an id here is an image's place in the owner's order; put the other images beside these"
        )
    codes = np.repeat(np.arange(len(_CLASSES)), [len(of) for of in numbers.values()])
    joined = np.concatenate([np.array(places[label])[of - first] for label, of in enumerate(numbers.values())])
    inside = relative(folder, home.root)
    paths = [f"{inside}/{name}/{escape_name(file)}" for name, of in files.items() for file in of]
    order = np.argsort(joined)
    table = partition_table(
        _CLASSES,
        codes[order],
        position_ids(home.partition, joined[order]),
        pa.array(paths, pa.string()).take(pa.array(order)),
    )
    return PartitionIndex(home.partition, f"class folders in {inside}", "file", table)


def _numbered_files(home: Home, folder: Path) -> dict[str, list[str]]:
    """Return the names of the numbered PNG files in each class's folder."""
    files = {name: [file for file in child_names(folder / name) if _NUMBERED.fullmatch(file)] for name in _CLASSES}
    if not all(files.values()):
        empty = next(name for name, of in files.items() if not of)
        raise home.other_data(
            f"{folder / empty} has no files that are numbered in the owner's order, such as 0000.png, and an id here "
            "is an image's place in that order"
        )
    lossy = next(
        (f"{name}/{file}" for name, of in files.items() for file in of if not file.lower().endswith("png")), ""
    )
    if lossy:
        raise home.other_data(
            f"{folder / lossy} is a JPEG, which has other pixels than the owner's image, and rows here have the "
            "owner's pixels"
        )
    return files


def _shows_first(numbers: Mapping[str, Int64], places: Mapping[int, Sequence[int]]) -> bool:
    """Whether numbers without any 0 count from 1. A random tenth of a copy that counts from 0 often lacks all ten."""
    last = any(numbers[name].max() == len(places[label]) for label, name in enumerate(_CLASSES))
    return last or 2 * sum(1 in of for of in numbers.values()) > len(_CLASSES)


def _parquet(home: Home) -> PartitionIndex | None:
    """Index the mirror, whose files keep the order of the owner's."""
    first = 0

    def codes(path: Path) -> Int64:
        nonlocal first
        labels = parquet.read_codes(_TITLE, path, _CLASSES, image="img")
        _refuse_other_order(home, labels, first, path)
        first += len(labels)
        return labels

    return mirrored(home, codes)


CIFAR10 = Source(
    key="cifar10",
    title=_TITLE,
    edition="CIFAR-10 (2009)",
    licence=LICENCE,
    citation=CITATION,
    obtain=Obtain.packed(
        LICENCE.url,
        _PUBLISHED,
        mirror=Mirror("hf://datasets/uoft-cs/cifar10/plain_text", {"train": (("train",),), "test": (("test",),)}),
    ),
    classes=classes,
    expected=lambda: {"train": Expected.each(classes(), 5_000), "test": Expected.each(classes(), 1_000)},
    accepted=(
        CopyLayout(
            "the pickles cifar-10-batches-py/data_batch_1 to data_batch_5",
            functools.partial(_folder, "python"),
            ("train",),
        ),
        CopyLayout("the pickle cifar-10-batches-py/test_batch", functools.partial(_folder, "python"), ("test",)),
        CopyLayout("the archive cifar-10-python.tar.gz", functools.partial(_archive, "python")),
        CopyLayout("the binary version, cifar-10-batches-bin/*.bin", functools.partial(_folder, "binary")),
        CopyLayout("its archive cifar-10-binary.tar.gz", functools.partial(_archive, "binary")),
        CopyLayout("{partition}/<class>/<number>.png, numbered in the owner's order", _class_folders),
        CopyLayout("the Hub's plain_text/{partition}-*.parquet (also in data/)", _parquet),
    ),
    arrays=RGB32,
)
