"""Is a copy the full edition or a mirror with resized images? Looks at the sizes of a few images of each partition."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.errors import BuildError
from builders.release.images import DECODE_ERRORS
from builders.sources.base import IN_PLACE, Piece, PixelSizes, SourceIndex
from builders.sources.unpack import UNPACKERS

_SAMPLE = 64
"""Images of a partition that are looked at. Even of an edition with one size in three of four images, 64 would agree
by chance in one of 100 million copies."""

_SMALL = 100
"""Pixels; few images of ILSVRC2012 have a shorter side, and even fewer of the other sources of photographs."""

_FEWEST = 16
"""Of fewer images nothing is concluded."""

_CONTAINERS = 4
"""Containers of a partition whose first images are looked at, since one image costs as much as its row group."""

_HEAD = 1024 * 1024
"""Bytes of an image in an archive that are read for its size; an EXIF or colour block before it takes some of them."""

Size = tuple[int, int]


def refuse_resized(index: SourceIndex) -> None:
    """Refuse a copy whose images are not those of the full edition, judged by their width and height.

    Raises:
        BuildError: all images looked at in a partition share a size or a shorter side that the full edition's do not
            share, or most are smaller than nearly all of the full edition are.
    """
    known = index.source.pixel_sizes
    if known is None:
        return
    for piece in index.pieces:
        sizes = list(_sampled(index.root, piece))
        seen = _seen(known, sizes) if len(sizes) >= _FEWEST else ""
        if seen:
            title = index.source.title
            raise BuildError(
                f"{title}, {piece.partition}: {seen}; this looks like {_edition(index, known, sizes)}, not like the "
                f"full edition ({index.source.edition}), in {index.root}. Give the original images with "
                f"--{index.source.key}."
            )


def _seen(known: PixelSizes, sizes: Sequence[Size]) -> str:
    """What is wrong with the sizes of some images; an empty text where nothing is."""
    shorter = Counter(min(size) for size in sizes)
    side, count = shorter.most_common(1)[0]
    if count == len(sizes) and side not in known.shared:
        one = len(set(sizes)) == 1
        return f"all {count} images looked at " + (f"are {_by(sizes[0])} pixels" if one else f"have a side of {side}")
    small = sum(count for side, count in shorter.items() if side < _SMALL)
    if 2 * small > len(sizes):
        return f"{small} of {len(sizes)} images looked at have a side below {_SMALL} pixels"
    return ""


def _edition(index: SourceIndex, known: PixelSizes, sizes: Sequence[Size]) -> str:
    """The name of the edition that has such sizes, as far as it has one."""
    name = index.source.title.partition(" (")[0]
    if len(set(sizes)) == 1:
        return known.editions.get(sizes[0], f"{name} resized to {_by(sizes[0])}")
    sides = {min(size) for size in sizes}
    return f"{name} resized to a shorter side of {sides.pop()}" if len(sides) == 1 else f"a smaller edition of {name}"


def _by(size: Size) -> str:
    return f"{size[0]} x {size[1]}"


def _sampled(root: Path, piece: Piece) -> Iterator[Size]:
    """Width and height of some images, the same for equal copies; an image whose header cannot be read has none."""
    if piece.form != "encoded":
        return
    for head in _heads(root, piece):
        try:
            with Image.open(io.BytesIO(head)) as image:
                yield image.size
        except DECODE_ERRORS:
            continue  # the build says what is wrong with it, if it takes it


def _heads(root: Path, piece: Piece) -> Iterator[bytes]:
    if piece.how in IN_PLACE:
        places = piece.table.select(["file", "offset", "size"]).take(pa.array(_drawn(piece.table.num_rows, _SAMPLE)))
        for row in places.to_pylist():
            with (root / row["file"]).open("rb") as opened:
                opened.seek(row["offset"])
                yield opened.read(_HEAD if row["size"] < 0 else min(_HEAD, row["size"]))
        return
    files = piece.table["file"].unique().sort()
    for number in _drawn(len(files), _CONTAINERS):
        inside = piece.table.filter(pc.equal(piece.table["file"], files[number]))
        first = np.sort(inside["offset"].to_numpy())[: _SAMPLE // min(_CONTAINERS, len(files))]
        for batch in UNPACKERS[piece.how](root / files[number].as_py(), first):
            yield from (bytes(memoryview(image)[:_HEAD]) for image in batch)


def _drawn(count: int, wanted: int) -> npt.NDArray[np.int64]:
    """Some of so many numbers, the first by SHA-256 of a counter, ascending; all where there are no more."""
    if count <= wanted:
        return np.arange(count)
    drawn: dict[int, None] = {}
    turn = 0
    while len(drawn) < wanted:
        digest = hashlib.sha256(f"sizes {turn}".encode()).digest()
        drawn[int.from_bytes(digest[:8], "big") % count] = None
        turn += 1
    return np.array(sorted(drawn), dtype=np.int64)
