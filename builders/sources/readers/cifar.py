"""Reads the owner's files of CIFAR-10 and CIFAR-100: pickles, and records of the binary version, also in an archive.

A pickle has the images as rows of 3,072 bytes, 1,024 of red, of green and of blue, and the labels as lists. A record
of the binary version is one byte for the label and the same 3,072 bytes.

Tested by `tests/builders/sources/datasets/test_cifar100.py` and `test_cifar10.py`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import RGB32_BYTES, Home, PartitionIndex
from builders.sources.readers import pickles, tars
from builders.sources.readers.arrays import interleaved, position_table
from builders.sources.readers.folders import relative
from builders.storage.files import open_buffered

Int64 = npt.NDArray[np.int64]

BINARY = ".bin"
"""The ending of the binary version's files."""

_RECORD = 1 + RGB32_BYTES

_LARGEST = 1 << 28
"""Bytes of a file of records at most (ours), as of a pickle. The owner's have 30,730,000."""


@dataclass(frozen=True)
class CifarFile:
    """One of the owner's files: its source's title, where it is, its values but for the images, and the images.

    `pixels` is uint8 (n, 3,072), each row 1,024 bytes of red, of green and of blue. `start` is where the first row
    begins in a file on disk and `stride` the bytes from one to the next; `start` is None if it has them elsewhere.
    """

    title: str
    place: Path
    values: Mapping[str, object]
    pixels: npt.NDArray[np.uint8]
    start: int | None
    stride: int = RGB32_BYTES

    def labels(self, key: str, limit: int) -> Int64:
        """Return a list of the batch as an array of a label from 0 to `limit` - 1 for each image."""
        labels = self.values[key]
        if not isinstance(labels, list) or len(labels) != len(self.pixels):
            number = f"{len(labels):,}" if isinstance(labels, list) else "no list of"
            raise self.refused(f"has {len(self.pixels):,} images and {number} {key}")
        wrong = next((label for label in labels if type(label) is not int or not 0 <= label < limit), None)
        if wrong is not None:
            raise self.refused(f"has {pickles.short_repr(wrong)} in its {key}, which is not from 0 to {limit - 1}")
        return np.array(labels, dtype=np.int64)

    def refused(self, problem: str) -> BuildError:
        """Return the error for a file that is not the owner's."""
        return _refused(self.title, self.place, problem)


def _refused(title: str, place: Path, problem: str) -> BuildError:
    version = "binary" if place.name.endswith(BINARY) else "python"
    return BuildError(
        f"{title}: {place} {problem}. Download the archive of the {version} version again from the owner's page."
    )


def read_batches(
    title: str, places: Sequence[Path], keys: Sequence[str] = ("data",), hint: str = ""
) -> Iterator[CifarFile]:
    """Read files of one folder in turn, which may be inside an archive (`.../cifar-10-python.tar.gz/folder/name`).

    Pickles must have the values `keys`, and `hint` is added to the message if one does not; of records all but `data`
    are the labels.
    """
    contents: dict[PurePosixPath, bytes] = {}
    for place in places:
        if place.is_file():
            with open_buffered(place) as file:
                yield _read(title, place, file, keys, hint, on_disk=True)
            continue
        archive, member = place.parents[1], PurePosixPath(place.parent.name) / place.name
        if not contents:  # a compressed archive is read from its start: once for all of them
            contents = tars.read_files(archive, {PurePosixPath(one.parent.name) / one.name for one in places})
        if (content := contents.get(member)) is None:
            raise _refused(title, archive, f"lacks {member}")
        yield _read(title, place, io.BytesIO(content), keys, hint, on_disk=False)


def _read(title: str, place: Path, file: IO[bytes], keys: Sequence[str], hint: str, *, on_disk: bool) -> CifarFile:
    if place.name.endswith(BINARY):
        return _records(title, place, file, keys, on_disk=on_disk)
    values = pickles.load_pickle(title, file, place)
    if not set(keys) <= set(values):
        found = pickles.short_repr(", ".join(sorted(values)) or "nothing")
        raise _refused(title, place, f"lacks one of {', '.join(keys)} (found: {found}){hint}")
    try:
        pixels = pickles.byte_matrix(values["data"])
        if pixels.shape[1] != RGB32_BYTES:
            raise ValueError(f"an array of shape {pixels.shape}")
    except ValueError as error:
        problem = f"has no images as an array of n x {RGB32_BYTES:,} bytes (found: {error})"
        raise _refused(title, place, problem) from error
    return CifarFile(title, place, values, pixels, getattr(values["data"], "offset", None) if on_disk else None)


def _records(title: str, place: Path, file: IO[bytes], keys: Sequence[str], *, on_disk: bool) -> CifarFile:
    content = file.read(_LARGEST + 1)
    if not content or len(content) % _RECORD or len(content) > _LARGEST:
        size = f"more than {_LARGEST:,}" if len(content) > _LARGEST else f"{len(content):,}"
        raise _refused(title, place, f"has {size} bytes, which are no images of {_RECORD:,} bytes with their labels")
    records = np.frombuffer(content, np.uint8).reshape(-1, _RECORD)
    values = {key: records[:, 0].tolist() for key in keys if key != "data"}
    return CifarFile(title, place, values, records[:, 1:], 1 if on_disk else None, _RECORD)


def indexed(
    home: Home, description: str, batches: Iterator[CifarFile], codes_of: Callable[[CifarFile], Int64]
) -> PartitionIndex:
    """Index a partition's files in their order; `codes_of` checks the labels of one and gives its classes."""
    tables: list[pa.Table] = []
    in_place: list[pa.Table] = []
    for batch in batches:
        first = sum(table.num_rows for table in tables)
        table = position_table(home, codes_of(batch), batch.place, first=first)
        tables.append(table)
        if batch.start is not None:
            offsets = pc.add(pc.multiply(table["offset"], batch.stride), batch.start)
            in_place.append(table.set_column(table.schema.get_field_index("offset"), "offset", offsets))
    if len(in_place) == len(tables):
        joined = pa.concat_tables(in_place).combine_chunks()
        return PartitionIndex(home.partition, description, "span", joined, form="planar32")
    return PartitionIndex(
        home.partition, description, "batch", pa.concat_tables(tables).combine_chunks(), form="rgb32"
    )


def unpack_batch(path: Path, rows: Int64) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield the pixels of some rows of a file, which may be inside an archive; see `builders.sources.unpack`."""
    (batch,) = read_batches("CIFAR", [path])
    yield from interleaved(batch.pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows, path)


def named(home: Home, places: Sequence[Path], kind: str) -> str:
    """Return a partition's layout for messages: its one file, or the first and the last."""
    names = [relative(place, home.root) for place in places]
    return f"{kind} {names[0]}" if len(names) == 1 else f"{kind}s {names[0]} to {places[-1].name}"
