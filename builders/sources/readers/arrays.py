"""Indexes and reads sources whose images are small arrays upstream, identified by their position in the array.

Tested by `tests/builders/sources/datasets/test_cifar100.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.sources.base import RGB32_BYTES, Home, PartitionIndex, partition_table
from builders.sources.readers import parquet_files
from builders.sources.readers.folders import relative

Int64 = npt.NDArray[np.int64]

_BATCH = 1024
"""Images that are copied at a time (ours): 3 MB."""


def position_table(home: Home, codes: Int64, file: Path, *, first: int = 0, size: int = RGB32_BYTES) -> pa.Table:
    """Index the images of one container in their order, with ids such as `test/00042`.

    `codes` are positions among the source's classes, `first` is the number of the partition's images in the containers
    before this one, and `size` the bytes of each image once unpacked, -1 where unknown.
    """
    rows = np.arange(len(codes), dtype=np.int64)
    return partition_table(
        tuple(home.source.classes()),
        codes,
        position_ids(home.partition, rows + first),
        pa.repeat(pa.scalar(relative(file, home.root), pa.string()), len(codes)),
        pa.array(rows),
        pa.repeat(pa.scalar(size, pa.int64()), len(codes)),
    )


def position_ids(partition: str, places: Int64) -> pa.Array:
    """Return the ids of images at some places in the owner's order."""
    numbers = pc.utf8_lpad(pc.cast(pa.array(places), pa.string()), 5, "0")
    return pc.binary_join_element_wise(f"{partition}/", numbers, "")


def mirrored(home: Home, read_codes: Callable[[Path], Int64]) -> PartitionIndex | None:
    """Index a Hub mirror whose Parquet files have the images as PNG, in the order of the owner's array.

    `read_codes` reads and checks the labels of one file. Returns None if there is no file.
    """
    files = parquet_files.split_files(home.folder, home.partition)
    if not files:
        return None
    parquet_files.refuse_gaps(home.source.title, files)
    parts: list[pa.Table] = []
    for path in files:
        first = sum(part.num_rows for part in parts)
        parts.append(position_table(home, read_codes(path), path, first=first, size=-1))
    layout = f"Parquet files {parquet_files.pattern(files, home.root)}"
    return PartitionIndex(home.partition, layout, "parquet", pa.concat_tables(parts).combine_chunks())


def in_owners_order(
    find: Callable[[Home], PartitionIndex | None], digest_of: Callable[[str], str | None]
) -> Callable[[Home], PartitionIndex | None]:
    """Return the reader of a layout, which refuses complete partitions in another order than the owner's.

    An image is identified by its place in that order, so a copy of equal counts in another one has other images under
    the same ids. `digest_of` gives the SHA-256 of the labels of a partition's images, a byte each, or None where their
    order is not known. A copy that lacks images is short by its counts, and is not compared.
    """

    def read(home: Home) -> PartitionIndex | None:
        index = find(home)
        known = digest_of(home.partition)
        if index is None or known is None or index.table.num_rows != home.source.expected()[home.partition].total:
            return index
        labels = index.table["class_id"].combine_chunks().indices.to_numpy().astype(np.uint8)
        if hashlib.sha256(labels.tobytes()).hexdigest() != known:
            raise home.other_data(
                f"the {len(labels):,} images in {home.root} ({index.layout}) stand in another order than the owner's "
                f"{home.partition} images, as their labels show, and an image is identified by its place in that order"
            )
        return index

    return read


def interleaved(images: npt.NDArray[np.uint8], rows: Int64, path: Path) -> Iterator[list[npt.NDArray[np.uint8]]]:
    """Yield the pixels of some images in batches, each image as 32 rows of 32 times red, green, blue.

    `images` is n x 32 x 32 x 3, or n x 28 x 28 of grey, in any memory order, and `path` the file that they come from.
    """
    if len(rows) and int(rows[-1]) >= len(images):
        raise BuildError(
            f"{path} changed during the build: expected at least {int(rows[-1]) + 1:,} images, found "
            f"{len(images):,}. Run the same command again."
        )
    for start in range(0, len(rows), _BATCH):
        batch = np.ascontiguousarray(images[rows[start : start + _BATCH]])
        yield list(batch.reshape(len(batch), -1))
