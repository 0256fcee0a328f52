"""Sizes of a source's images in bytes: looked up, or estimated from a sample.

Tested by `tests/builders/adopt/test_copies.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.sources.base import IN_PLACE, LARGEST_IMAGE, SourceIndex
from builders.storage.regular import open_buffered, refuse_irregular

Int64 = npt.NDArray[np.int64]

_SAMPLE = 1000


def estimated_bytes(index: SourceIndex, rows: Int64) -> int:
    """Estimate the total size of some images from a sample: within a few per cent, and fast for a million images.

    Raises:
        BuildError: as for `look_up_sizes`.
    """
    if len(rows) == 0:
        return 0
    sample = rows[:: -(-len(rows) // _SAMPLE)]
    places = index.take(["how", "file", "size"], sample).to_pylist()
    averages: dict[str, float] = {}
    total = 0.0
    for place in places:
        path = index.root / place["file"]
        if place["how"] == "parquet" and place["size"] < 0:
            if place["file"] not in averages:
                averages[place["file"]] = _average_image(path)
            total += averages[place["file"]]
        else:
            total += place["size"] if place["size"] >= 0 else _file_size(index, str(path))
    return int(total / len(sample) * len(rows))


def image_sizes(index: SourceIndex, rows: Int64) -> tuple[Int64, Callable[[int], bytes]]:
    """Return the sizes of some images in bytes, and a function that reads the i-th of them.

    Raises:
        BuildError: the images are in containers, where reading one image means reading a hundred.
    """
    places = index.take(["how", "file", "offset", "size"], rows)
    how = places["how"].cast(pa.string()).to_numpy(zero_copy_only=False)
    packed = how[~np.isin(how, IN_PLACE)]
    if len(packed):
        raise BuildError(
            f"{index.source.title}: images in {packed[0]} containers cannot be matched by content ({index.root}). "
            f"Give files or tar archives with --{index.source.key}."
        )
    files = places["file"].combine_chunks()
    offsets = places["offset"].to_numpy()
    sizes = places["size"].to_numpy().copy()
    look_up_sizes(index, files, np.flatnonzero(sizes < 0), sizes, lambda _: None)

    def read(i: int) -> bytes:
        with open_buffered(index.root / files[i].as_py()) as opened:
            opened.seek(int(offsets[i]))
            data: bytes = opened.read(int(sizes[i]))
            return data

    return sizes, read


def _average_image(path: Path) -> float:
    metadata = pq.read_metadata(path)
    # All columns: labels are small beside images, and pyarrow 26 ends the process where a single one's metadata are
    # damaged (`builders.storage.row_groups`).
    total = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    average: float = total / max(1, metadata.num_rows)
    return average


def look_up_sizes(
    index: SourceIndex, files: pa.Array, wanted: Int64, sizes: Int64, advance: Callable[[int], None]
) -> None:
    """Look up the sizes of some of a source's files.

    Args:
        index: the source.
        files: paths relative to the source's root.
        wanted: positions in `files` to look up.
        sizes: bytes of each file, filled in place.
        advance: called with the number of files looked up since the last call.

    Raises:
        BuildError: a file is missing or inaccessible, is no regular file, or is too large to be an image.
    """
    root = f"{index.root}{os.sep}"
    for done, row in enumerate(wanted.tolist(), start=1):
        sizes[row] = _file_size(index, root + files[row].as_py())
        if done % 4096 == 0 or done == len(wanted):
            advance((done - 1) % 4096 + 1)


def _file_size(index: SourceIndex, path: str) -> int:
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path costs more than the call
    except OSError as error:
        raise BuildError(
            f"{index.source.title}: cannot read {path}: {error.strerror}. Restore it in the source folder and run "
            "again."
        ) from error
    refuse_irregular(path, status.st_mode)
    if status.st_size > LARGEST_IMAGE:
        raise BuildError(
            f"{index.source.title}: {path} has {status.st_size:,} bytes, more than any image of a source. Put the "
            "original file in its place."
        )
    return status.st_size
