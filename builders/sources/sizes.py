"""Sizes of a source's images: bytes, looked up or estimated, and pixels, which give away resized copies.

Tested by `tests/builders/adopt/test_copies.py` and `tests/builders/sources/test_sizes.py`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.errors import BuildError
from builders.release.images import DECODE_ERRORS
from builders.release.remarks import collect_remarks
from builders.sources.base import IN_PLACE, LARGEST_IMAGE, PartitionIndex, Rows, Source, SourceIndex, take_rows
from builders.sources.unpack import UNPACKERS
from builders.storage.byte_ranges import read_starts
from builders.storage.files import open_buffered
from builders.storage.folders import sizes_of
from builders.storage.parquet import open_parquet

Int64 = npt.NDArray[np.int64]

_SAMPLE = 1000
"""Images from which a total in bytes is estimated (ours)."""

EXAMINED = 64
"""Images of a partition that are examined. Even if three of four images of an edition had one size, 64 would agree by
chance in one of 100 million copies."""

_SMALL = 100
"""Pixels. Few images of ILSVRC2012 have a side below this, and even fewer in the other sources of photographs."""

_FEWEST = 16
"""The least number of images from which an edition is inferred."""

_CONTAINERS = 4
"""Containers of a partition whose first images are examined: one image costs as much as its whole row group."""

_HEAD = 1024 * 1024
"""Bytes of an image that are read to find its size, which may come after an EXIF or colour profile block."""

Size = tuple[int, int]


def estimated_bytes(index: SourceIndex, rows: Rows) -> int:
    """Estimate the total bytes of some images from a sample: within a few per cent, and fast for a million images."""
    if len(rows) == 0:
        return 0
    sample = rows[:: -(-len(rows) // _SAMPLE)]
    locations = index.take(["how", "file", "size"], sample).to_pylist()
    unknown = [location for location in locations if location["size"] < 0]
    files = pa.array([location["file"] for location in unknown if location["how"] != "parquet"], pa.string())
    parquet = [location["file"] for location in unknown if location["how"] == "parquet"]
    averages = {file: _average_image(index.root / file) for file in dict.fromkeys(parquet)}
    total = sum(location["size"] for location in locations if location["size"] >= 0) + sum(file_sizes(index, files))
    return int((total + sum(averages[file] for file in parquet)) / len(sample) * len(rows))


def image_sizes(index: SourceIndex, rows: Rows) -> tuple[Int64, Callable[[int], bytes]]:
    """Return the bytes of some images, and a function that reads the i-th; images in containers are not allowed."""
    locations = index.take(["file", "offset", "size"], rows)
    files = locations["file"].combine_chunks()
    offsets = locations["offset"].to_numpy()
    sizes = locations["size"].to_numpy().copy()
    sizes[sizes < 0] = file_sizes(index, files.filter(pa.array(sizes < 0)))

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


def file_sizes(
    index: SourceIndex, files: pa.Array, advance: Callable[[int], object] = lambda images: None
) -> list[int]:
    """Look up the sizes of files of a source; `advance` is told how many were since it was last called.

    Raises:
        BuildError: a file is missing or inaccessible, is no regular file, or is too large to be an image.
    """
    names, sizes = files.to_pylist(), list[int]()
    try:
        for file, size in zip(names, sizes_of(index.root, names), strict=True):
            if size > LARGEST_IMAGE:
                raise BuildError(
                    f"{index.source.title}: {index.root / file} has {size:,} bytes, more than any image of a source. "
                    "Put the original file in its place."
                )
            sizes.append(size)
            if len(sizes) % 4096 == 0 or len(sizes) == len(names):
                advance((len(sizes) - 1) % 4096 + 1)
    except OSError as error:
        raise BuildError(
            f"{index.source.title}: cannot read {error.filename}: {error.strerror}. Restore it in the source folder "
            "and run again."
        ) from error
    return sizes


def refuse_resized(index: SourceIndex) -> None:
    """Refuse a copy whose images, by their width and height, were resized from the full edition's.

    Raises:
        BuildError: all examined images of a partition share a size or a shorter side that the full edition's images
            do not share, most are smaller than nearly all images of the full edition, or one has another size than
            all of these.
    """
    source = index.source
    if source.shared_sides is None and source.one_size is None:
        return
    for partition in index.partitions:
        with collect_remarks():  # a build tells of those on the images that it takes
            sizes = list(sampled_sizes(index.root, partition))
        problem = size_problem(source, sizes)
        if problem:
            raise BuildError(
                f"{source.title}, {partition.name}: {problem}. {index.root} looks like a resized copy, not like the "
                f"full edition ({source.edition}). Give the original images with --{source.key}."
            )


def size_problem(source: Source, sizes: Sequence[Size]) -> str:
    """Describe what shows that images are resized; empty if nothing does."""
    if source.one_size is not None and (others := [size for size in sizes if size != source.one_size]):
        return (
            f"{len(others)} of {len(sizes)} images examined are not of {_by(source.one_size)} pixels, one of them of "
            f"{_by(others[0])}"
        )
    if source.shared_sides is None or len(sizes) < _FEWEST:
        return ""
    shorter = Counter(min(size) for size in sizes)
    side, count = shorter.most_common(1)[0]
    if count == len(sizes) and side not in source.shared_sides:
        shared = f"are {_by(sizes[0])} pixels" if len(set(sizes)) == 1 else f"have a side of {side}"
        return f"all {count} images examined {shared}"
    small = sum(count for side, count in shorter.items() if side < _SMALL)
    if 2 * small > len(sizes):
        return f"{small} of {len(sizes)} images examined have a side below {_SMALL} pixels"
    return ""


def _by(size: Size) -> str:
    return f"{size[0]} x {size[1]}"


def sampled_sizes(root: Path, partition: PartitionIndex) -> Iterator[Size]:
    """Yield the width and height of some images, the same ones in equal copies; skips unreadable headers."""
    if partition.form != "encoded":
        return
    for head in _heads(root, partition):
        try:
            with Image.open(io.BytesIO(head)) as image:
                yield image.size
        except DECODE_ERRORS:
            continue  # the build reports it if it takes this image


def _heads(root: Path, partition: PartitionIndex) -> Iterator[bytes]:
    table = partition.table
    if partition.how in IN_PLACE:
        rows = take_rows(table.select(["file", "offset", "size"]), spread(table.num_rows, EXAMINED)).to_pylist()
        places = [(row["file"], row["offset"], _HEAD if row["size"] < 0 else min(_HEAD, row["size"])) for row in rows]
        yield from read_starts(root, places)
        return
    files = table["file"].unique().sort()
    for number in spread(len(files), _CONTAINERS):
        offsets = table.filter(pc.equal(table["file"], files[number]))["offset"].to_numpy()
        first = np.sort(offsets)[: EXAMINED // min(_CONTAINERS, len(files))]
        for batch in UNPACKERS[partition.how](root / files[number].as_py(), first):
            yield from (bytes(memoryview(image)[:_HEAD]) for image in batch)


def spread(total: int, size: int) -> Int64:
    """Return ascending numbers below `total` at equal distances, all of them if there are no more than `size`."""
    return np.linspace(0, total - 1, min(total, size)).astype(np.int64)
