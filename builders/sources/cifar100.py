"""CIFAR-100: 100 classes in 20 superclasses, 32 x 32 pixels, 500 training and 100 test images a class."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import (
    RGB32_BYTES,
    CopyLayout,
    Expected,
    Home,
    Licence,
    OtherDataError,
    PartitionIndex,
    Source,
)
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet, pickles, tars
from builders.sources.readers.arrays import interleaved, mirrored, position_table
from builders.sources.readers.folders import child_names, relative
from builders.storage.files import open_buffered
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
    """Index a pickle, whose two labels of each image must agree."""
    batch, pixels, start = _batch(place)
    fine = _labels(batch, "fine_labels", len(pixels), len(classes()), place)
    coarse = _labels(batch, "coarse_labels", len(pixels), len(coarse_classes()), place)
    wrong = np.flatnonzero(_coarse_of_fine()[fine] != coarse)
    if len(wrong):
        row = int(wrong[0])
        names = list(classes())[int(fine[row])], coarse_classes()[int(coarse[row])]
        raise _other(place, f"has the fine label {names[0]}, but the coarse label {names[1]} of image {row:,}")
    table = position_table(home, fine, place)
    layout = f"pickle {relative(place, home.root)}"
    if place.is_file() and start is not None:
        offsets = pc.add(pc.multiply(table["offset"], RGB32_BYTES), start)
        return PartitionIndex(home.partition, layout, "span", table.set_column(3, "offset", offsets), form="planar32")
    return PartitionIndex(home.partition, layout, "pickle", table, form="rgb32")


def _batch(place: Path) -> tuple[Mapping[str, object], npt.NDArray[np.uint8], int | None]:
    """Read a pickle, which may be inside the archive (`.../cifar-100-python.tar.gz/cifar-100-python/train`).

    Returns:
        Its values; its images as n x 3,072, each row 1,024 bytes of red, of green and of blue; and where these begin
        in the file, None if it does not have them as they are.
    """
    if place.is_file():
        with open_buffered(place) as file:
            batch = pickles.load_pickle(_TITLE, file, place)
    else:
        member = PurePosixPath(_FOLDER) / place.name
        content = tars.read_files(place.parents[1], {member}).get(member)
        if content is None:
            raise _other(place.parents[1], f"lacks {member}")
        batch = pickles.load_pickle(_TITLE, io.BytesIO(content), place)
    if not set(_KEYS) <= set(batch):
        keys = pickles.short_repr(", ".join(sorted(batch)) or "nothing")
        raise _other(place, f"lacks one of {', '.join(_KEYS)} (found: {keys}), which CIFAR-10's files lack, too")
    try:
        pixels = pickles.byte_matrix(batch["data"])
        if pixels.shape[1] != RGB32_BYTES:
            raise ValueError(f"an array of shape {pixels.shape}")
    except ValueError as error:
        raise _other(place, f"has no images as an array of n x {RGB32_BYTES:,} bytes (found: {error})") from error
    return batch, pixels, getattr(batch["data"], "offset", None)


def _labels(batch: Mapping[str, object], key: str, images: int, limit: int, place: Path) -> Int64:
    """Return a list of the pickle as an array of a label for each image."""
    labels = batch[key]
    if not isinstance(labels, list) or len(labels) != images:
        number = f"{len(labels):,}" if isinstance(labels, list) else "no list of"
        raise _other(place, f"has {images:,} images and {number} {key}")
    wrong = next((label for label in labels if type(label) is not int or not 0 <= label < limit), None)
    if wrong is not None:
        raise _other(place, f"has {pickles.short_repr(wrong)} in its {key}, which is not from 0 to {limit - 1}")
    return np.array(labels, dtype=np.int64)


def _other(place: Path, problem: str) -> BuildError:
    return BuildError(
        f"{_TITLE}: {place} {problem}. Download the archive of the python version again from the owner's page."
    )


def unpack_pickle(path: Path, rows: Int64) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield the pixels of some rows of a pickle, which an archive may contain; see `builders.sources.unpack`."""
    _, pixels, _ = _batch(path)
    yield from interleaved(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows, path)


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


CIFAR100 = Source(
    key="cifar100",
    title=_TITLE,
    edition="CIFAR-100, python version (2009)",
    licence=Licence(
        name="none stated",
        url="https://www.cs.toronto.edu/~kriz/cifar.html",
        statement=(
            "The owners' page states no licence; it asks that the technical report be cited. The images are labelled "
            "subsets of 80 Million Tiny Images, which were collected from the web and which their owners withdrew in "
            "2020."
        ),
        publish="ids-only",
    ),
    citation="""@techreport{krizhevsky2009learning,
  title = {Learning Multiple Layers of Features from Tiny Images},
  author = {Krizhevsky, Alex},
  institution = {University of Toronto},
  year = {2009}
}""",
    obtain=Obtain.packed(
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        _PUBLISHED,
        mirror=Mirror("hf://datasets/uoft-cs/cifar100/cifar100", {"train": (("train",),), "test": (("test",),)}),
    ),
    classes=classes,
    expected=lambda: {"train": Expected.each(classes(), 500), "test": Expected.each(classes(), 100)},
    accepted=(
        CopyLayout(f"the pickle {_FOLDER}/{{partition}}", _folder),
        CopyLayout(f"the archive {_ARCHIVE}", _archive),
        CopyLayout(
            "the Hub's cifar100/{partition}-*.parquet (also in data/)",
            lambda home: mirrored(home, _parquet_codes),
        ),
    ),
    arrays=True,
)
