"""Sizes of a source's images in bytes: looked up, or estimated from a sample.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.errors import BuildError
from builders.sources.base import LARGEST_IMAGE, SourceIndex
from builders.storage.files import open_buffered
from builders.storage.parquet import open_parquet
from builders.storage.paths import store_of

Int64 = npt.NDArray[np.int64]

_SAMPLE = 1000  # images (ours)


def estimated_bytes(index: SourceIndex, rows: Int64) -> int:
    """Estimate the total size of some images from a sample: within a few per cent, and fast for a million images.

    Raises:
        BuildError: as for `look_up_sizes`.
    """
    if len(rows) == 0:
        return 0
    sample = rows[:: -(-len(rows) // _SAMPLE)]
    locations = index.take(["how", "file", "size"], sample).to_pylist()
    unknown = [location for location in locations if location["size"] < 0]
    files = [location["file"] for location in unknown if location["how"] != "parquet"]
    parquet = [location["file"] for location in unknown if location["how"] == "parquet"]
    averages = {file: _average_image(index.root / file) for file in dict.fromkeys(parquet)}
    total = sum(location["size"] for location in locations if location["size"] >= 0) + sum(_file_sizes(index, files))
    return int((total + sum(averages[file] for file in parquet)) / len(sample) * len(rows))


def image_sizes(index: SourceIndex, rows: Int64) -> tuple[Int64, Callable[[int], bytes]]:
    """Return the sizes of some images in bytes, and a function that reads the i-th; all lie where they are found."""
    locations = index.take(["file", "offset", "size"], rows)
    files = locations["file"].combine_chunks()
    offsets = locations["offset"].to_numpy()
    sizes = locations["size"].to_numpy().copy()
    look_up_sizes(index, files, np.flatnonzero(sizes < 0), sizes, lambda _: None)

    def read(i: int) -> bytes:
        with open_buffered(index.root / files[i].as_py()) as file:
            file.seek(int(offsets[i]))
            data: bytes = file.read(int(sizes[i]))
            return data

    return sizes, read


def _average_image(path: Path) -> float:
    with open_parquet(path) as file:
        metadata = file.metadata
    # All columns: labels are small beside images, and pyarrow 26 ends the process where a single one's metadata are
    # damaged (`builders.storage.parquet`).
    total = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    average: float = total / max(1, metadata.num_rows)
    return average


def look_up_sizes(
    index: SourceIndex, files: pa.Array, positions: Int64, sizes: Int64, advance: Callable[[int], None]
) -> None:
    """Look up the sizes of some of a source's files.

    Args:
        index: the source.
        files: paths relative to the source's root.
        positions: those in `files` to look up.
        sizes: bytes of each file, filled in place.
        advance: called with the number of files looked up since the last call.

    Raises:
        BuildError: a file is missing or inaccessible, is no regular file, or is too large to be an image.
    """
    names = files.take(pa.array(positions)).to_pylist()
    for count, (position, size) in enumerate(zip(positions.tolist(), _file_sizes(index, names), strict=True), start=1):
        sizes[position] = size
        if count % 4096 == 0 or count == len(positions):
            advance((count - 1) % 4096 + 1)


def _file_sizes(index: SourceIndex, files: Sequence[str]) -> Iterator[int]:
    try:
        for file, size in zip(files, store_of(index.root).sizes(index.root, files), strict=True):
            if size > LARGEST_IMAGE:
                raise BuildError(
                    f"{index.source.title}: {index.root / file} has {size:,} bytes, more than any image of a source. "
                    "Put the original file in its place."
                )
            yield size
    except OSError as error:
        raise BuildError(
            f"{index.source.title}: cannot read {error.filename}: {error.strerror}. Restore it in the source folder "
            "and run again."
        ) from error
