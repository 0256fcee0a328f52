"""Detects mirrors with resized images, by the sizes of a few images of each partition."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from PIL import Image

from builders.errors import BuildError
from builders.release.images import DECODE_ERRORS
from builders.sources.base import IN_PLACE, PartitionIndex, PixelSizes, SourceIndex, take_rows
from builders.sources.unpack import UNPACKERS
from builders.storage.paths import store_of

_SAMPLE = 64
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


def refuse_resized(index: SourceIndex) -> None:
    """Refuse a copy whose images are not those of the full edition, judged by width and height.

    Raises:
        BuildError: all examined images of a partition share a size or a shorter side that the full edition's images
            do not share, or most are smaller than nearly all images of the full edition.
    """
    pixel_sizes = index.source.pixel_sizes
    if pixel_sizes is None:
        return
    for piece in index.pieces:
        sizes = list(sampled_sizes(index.root, piece))
        problem = _size_problem(pixel_sizes, sizes) if len(sizes) >= _FEWEST else ""
        if problem:
            source = index.source
            raise BuildError(
                f"{source.title}, {piece.partition}: {problem}. {index.root} looks like a resized copy, not like the "
                f"full edition ({source.edition}). Give the original images with --{source.key}."
            )


def _size_problem(pixel_sizes: PixelSizes, sizes: Sequence[Size]) -> str:
    """Describe what shows that images are resized; empty if nothing does."""
    shorter = Counter(min(size) for size in sizes)
    side, count = shorter.most_common(1)[0]
    if count == len(sizes) and side not in pixel_sizes.shared:
        shared = f"are {sizes[0][0]} x {sizes[0][1]} pixels" if len(set(sizes)) == 1 else f"have a side of {side}"
        return f"all {count} images examined {shared}"
    small = sum(count for side, count in shorter.items() if side < _SMALL)
    if 2 * small > len(sizes):
        return f"{small} of {len(sizes)} images examined have a side below {_SMALL} pixels"
    return ""


def sampled_sizes(root: Path, piece: PartitionIndex) -> Iterator[Size]:
    """Yield width and height of some images, the same ones of equal copies; unreadable headers are skipped."""
    if piece.form != "encoded":
        return
    for head in _heads(root, piece):
        try:
            with Image.open(io.BytesIO(head)) as image:
                yield image.size
        except DECODE_ERRORS:
            continue  # the build reports it if it takes this image


def _heads(root: Path, piece: PartitionIndex) -> Iterator[bytes]:
    if piece.how in IN_PLACE:
        locations = take_rows(piece.table.select(["file", "offset", "size"]), _sample(piece.table.num_rows, _SAMPLE))
        yield from store_of(root).starts(
            root,
            [
                (row["file"], row["offset"], _HEAD if row["size"] < 0 else min(_HEAD, row["size"]))
                for row in locations.to_pylist()
            ],
        )
        return
    table = piece.table
    files = table["file"].unique().sort()
    for number in _sample(len(files), _CONTAINERS):
        rows = table.filter(pc.equal(table["file"], files[number]))
        offsets = np.sort(rows["offset"].to_numpy())[: _SAMPLE // min(_CONTAINERS, len(files))]
        for batch in UNPACKERS[piece.how](root / files[number].as_py(), offsets):
            yield from (bytes(memoryview(image)[:_HEAD]) for image in batch)


def _sample(total: int, size: int) -> npt.NDArray[np.int64]:
    """Return ascending numbers below `total` at equal distances, all of them if there are no more than `size`."""
    return np.linspace(0, total - 1, min(total, size)).astype(np.int64)
