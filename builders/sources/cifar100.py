"""CIFAR-100: 100 classes in 20 superclasses, 32 x 32 pixels, 500 training and 100 test images a class."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import Expected, Licence, PartitionIndex, Source
from builders.sources.obtain import Mirror, Obtain, OwnerFile
from builders.sources.readers import parquet, pickles, tars
from builders.sources.readers.arrays import interleaved, mirrored, position_table
from builders.sources.readers.folders import relative
from builders.sources.readers.layouts import Search, alike
from builders.storage.files import open_buffered, read_regular
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
_META = "meta"
_KEYS = ("coarse_labels", "data", "filenames", "fine_labels")
_PIXELS = 3 * 32 * 32
_AGAIN = "Download the archive again from the owner's page"

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
def expected() -> Mapping[str, Expected]:
    """Return the sizes of the partitions: 500 training and 100 test images of each class."""
    return {
        "train": Expected(500 * len(classes()), dict.fromkeys(classes(), 500)),
        "test": Expected(100 * len(classes()), dict.fromkeys(classes(), 100)),
    }


@functools.cache
def _coarse_of_fine() -> Int64:
    return np.array([coarse_classes().index(row.coarse) for row in tables.cifar100()], dtype=np.int64)


def _folder(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    path = home / partition
    if not path.is_file():
        return None
    if (home / _META).is_file():
        with open_buffered(home / _META) as file:
            _check_meta(file, home / _META)
    with open_buffered(path) as file:
        table, pixels = _pickled(partition, root, path, file)
    layout = f"pickle {relative(path, root)}"
    start = _place_in(path, pixels)
    if start is None:
        return PartitionIndex(partition, layout, "pickle", table, form="rgb32")
    offsets = pc.add(pc.multiply(table["offset"], _PIXELS), start)
    return PartitionIndex(partition, layout, "span", table.set_column(3, "offset", offsets), form="planar32")


def _place_in(path: Path, pixels: npt.NDArray[np.uint8]) -> int | None:
    """Return the offset of the raw pixels in the file, to be read in place; None if the file has no such bytes.

    The owner's pickle holds them as one string. Other pickles may encode the same array differently.
    """
    if not len(pixels):
        return None
    raw = pixels.reshape(-1)
    content = read_regular(path)
    start = content.find(pixels[0].tobytes())
    if not 0 <= start <= len(content) - len(raw):
        return None
    return start if memoryview(content)[start : start + len(raw)] == raw.data else None


def _archive(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    path = home / _ARCHIVE
    if not path.is_file():
        return None
    inside = PurePosixPath(_FOLDER)
    files = tars.read_files(_TITLE, path, {inside / partition, inside / _META})
    if inside / partition not in files:
        raise BuildError(f"{_TITLE}: {path} lacks {inside / partition}. {_AGAIN}.")
    if inside / _META in files:
        _check_meta(io.BytesIO(files[inside / _META]), path / inside / _META)
    table, _ = _pickled(partition, root, path / inside / partition, io.BytesIO(files[inside / partition]))
    layout = f"pickle {inside / partition} in {relative(path, root)}"
    return PartitionIndex(partition, layout, "pickle", table, form="rgb32", hint=_PUBLISHED.difference(path))


def _pickled(partition: str, root: Path, place: Path, file: IO[bytes]) -> tuple[pa.Table, npt.NDArray[np.uint8]]:
    """Return the index of one pickle and its pixels."""
    batch = _batch(file, place)
    pixels = _pixels(batch, place)
    fine = _labels(batch, "fine_labels", len(pixels), len(classes()), place)
    coarse = _labels(batch, "coarse_labels", len(pixels), len(coarse_classes()), place)
    wrong = np.flatnonzero(_coarse_of_fine()[fine] != coarse)
    if len(wrong):
        row = int(wrong[0])
        name = list(classes())[int(fine[row])]
        raise BuildError(
            f"{_TITLE}: image {row:,} of {place} has the fine label {name}, but the coarse label "
            f"{coarse_classes()[int(coarse[row])]}. {_AGAIN}."
        )
    return position_table(partition, tuple(classes()), fine, relative(place, root)), pixels


def _batch(file: IO[bytes], place: Path) -> dict[str, object]:
    batch = pickles.load_pickle(_TITLE, file, place)
    if not set(_KEYS) <= set(batch):
        keys = pickles.short_repr(", ".join(sorted(batch)) or "nothing")
        raise BuildError(
            f"{_TITLE}: {place} lacks one of {', '.join(_KEYS)} (found: {keys}). "
            "Give a copy of the python version of CIFAR-100 with --cifar100 (CIFAR-10 has other keys)."
        )
    return batch


def _pixels(batch: Mapping[str, object], place: Path) -> npt.NDArray[np.uint8]:
    """Return the images as n x 3,072: each row 1,024 bytes of red, of green and of blue."""
    try:
        pixels = pickles.byte_matrix(batch["data"])
        if pixels.shape[1] != _PIXELS:
            raise ValueError(f"an array of shape {pixels.shape}")
    except ValueError as error:
        raise BuildError(
            f"{_TITLE}: the images of {place} are not an array of n x {_PIXELS:,} bytes (found: {error}). {_AGAIN}."
        ) from error
    _list_of(batch, "filenames", "file names", len(pixels), place)
    return pixels


def _list_of(batch: Mapping[str, object], key: str, description: str, images: int, place: Path) -> list[Any]:
    """Return a list of the pickle, which must have an item for each image."""
    values = batch[key]
    if isinstance(values, list) and len(values) == images:
        return values
    number = f"{len(values):,}" if isinstance(values, list) else "no list of"
    raise BuildError(f"{_TITLE}: {place} has {images:,} images and {number} {description}. {_AGAIN}.")


def _labels(batch: Mapping[str, object], key: str, images: int, limit: int, place: Path) -> Int64:
    labels = _list_of(batch, key, key, images, place)
    if set(map(type, labels)) - {int} or (labels and not 0 <= min(labels) <= max(labels) < limit):
        wrong = next(label for label in labels if type(label) is not int or not 0 <= label < limit)
        raise BuildError(
            f"{_TITLE}: {pickles.short_repr(wrong)} in the {key} of {place} is not from 0 to {limit - 1}. {_AGAIN}."
        )
    return np.array(labels, dtype=np.int64)


def _check_meta(file: IO[bytes], place: Path) -> None:
    """Refuse a copy whose own list orders the classes differently."""
    meta = pickles.load_pickle(_TITLE, file, place)
    for key, names in (("fine_label_names", tuple(classes())), ("coarse_label_names", coarse_classes())):
        listed = meta.get(key)
        if listed not in ([name.encode() for name in names], list(names)):
            raise BuildError(
                f"{_TITLE}: the {key} of {place} are not the {len(names)} names in alphabetical order. {_AGAIN}."
            )


def unpack_pickle(path: Path, rows: Int64) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield the pixels of some rows of a pickle; see `builders.sources.unpack`.

    Args:
        path: the pickle, which may be inside an archive: `.../cifar-100-python.tar.gz/cifar-100-python/train`.
        rows: ascending row numbers.
    """
    if path.is_file():
        with open_buffered(path) as file:
            pixels = _pixels(_batch(file, path), path)
    else:
        archive = path.parents[1]
        files = tars.read_files(_TITLE, archive, {PurePosixPath(_FOLDER) / path.name})
        if not files:
            raise BuildError(f"{_TITLE}: {path} is no longer there. {_AGAIN}.")
        (content,) = files.values()
        pixels = _pixels(_batch(io.BytesIO(content), path), path)
    yield from interleaved(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows, path)


def _parquet(partition: str, root: Path, home: Path) -> PartitionIndex | None:
    return mirrored(_TITLE, partition, root, home, tuple(classes()), _parquet_codes)


def _parquet_codes(path: Path) -> Int64:
    """Return the fine labels of one file of the mirror, which keeps the order of the owner's pickle."""
    fine = parquet.read_shard(_TITLE, path, image="img", label="fine_label", named=False)
    coarse = parquet.read_shard(_TITLE, path, image="img", label="coarse_label", named=False)
    names = tuple(classes())
    misspelt = tuple(_MIRROR_SPELLING.get(name, name) for name in names)
    parquet.refuse_other_labels(_TITLE, fine, misspelt if fine.label_names == misspelt else names)
    parquet.refuse_other_labels(_TITLE, coarse, coarse_classes())
    codes: Int64 = fine.labels.to_numpy()
    fits = pa.array(_coarse_of_fine()[codes] != coarse.labels.to_numpy())
    parquet.refuse_rows(_TITLE, path, fits, "the coarse label {label} does not fit the fine label", coarse)
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
    obtain=Obtain(
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "download the python version, cifar-100-python.tar.gz; it can stay packed",
        files=(_PUBLISHED,),
        mirror=Mirror("hf://datasets/uoft-cs/cifar100/cifar100", {"train": (("train",),), "test": (("test",),)}),
    ),
    classes=classes,
    expected=expected,
    search=Search(
        alike(
            ("train", "test"),
            (f"the pickle {_FOLDER}/{{partition}}", _folder),
            (f"the archive {_ARCHIVE}", _archive),
            ("the Hub's cifar100/{partition}-*.parquet (also in data/)", _parquet),
        )
    ),
    arrays=True,
)
