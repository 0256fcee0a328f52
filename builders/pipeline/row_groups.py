"""Reads, checks and hashes the images of a shard, one row group at a time.

Bytes go from the file into one buffer and from there into Parquet, without becoming Python objects.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.errors import BuildError
from builders.executors.base import Progress, ProgressCounter
from builders.release import images
from builders.release.images import image_place, unreadable_image
from builders.sources.broken import known_broken
from builders.storage.byte_ranges import Reader

ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Image bytes in one row group. The Hub's practice is at most 100 MB; a third of that keeps a worker under 300 MB,
because the buffer and the writer's pages each hold one group."""

_LEAST_BYTES, _MEAN_BYTES = ROW_GROUP_BYTES // 4, ROW_GROUP_BYTES // 4
"""Row groups end where an image's digest says, so that they end at the same images after some were withdrawn: behind
the least size after another 8 MiB on average, which leaves 5 % of them (e^-3) to be cut at `ROW_GROUP_BYTES`."""


def ends_group(filled: int, size: int, digest: str) -> bool:
    """Whether a row group of `filled` bytes ends behind its last image, by that image's size and `content_sha256`.

    A uniform number from the digest is compared with the image's share of the mean size, so that the expected size
    does not depend on how large images are.
    """
    return filled >= _LEAST_BYTES and int(digest[:13], 16) / 16**13 < size / _MEAN_BYTES


class Group(NamedTuple):
    """The images of one row group.

    `numbers` are their rows in the shard's plan. `offsets` are the starts of the images in `data` and the end of the
    last one; `digests` and `stored` are the columns `content_sha256` and `stored`. `pixels` are digests over the
    pixels of images that were decoded to be checked; empty if none were.
    """

    numbers: pa.Array
    offsets: pa.Array
    data: pa.Buffer
    digests: Sequence[str]
    stored: Sequence[images.Stored]
    pixels: Sequence[str] = ()

    @classmethod
    def nothing(cls) -> Group:
        """Return a group without images."""
        return cls(pa.array([], pa.int64()), pa.array([0], pa.int32()), pa.py_buffer(b""), (), ())


class GroupImages:
    """The images of a shard, in row groups of `ROW_GROUP_BYTES`.

    `rows` are the shard's plan. After the last group `dropped` has the id and the reason of each image left out as
    unreadable.
    """

    def __init__(self, rows: pa.Table, roots: Mapping[str, str], progress: Progress) -> None:
        self.rows, self.roots, self.progress = rows, roots, progress
        self.dropped: list[tuple[str, str]] = []
        # The digests in a plan from a published index; none in other plans.
        has_expected = "expected_sha256" in rows.column_names
        self.expected: list[str] = rows["expected_sha256"].to_pylist() if has_expected else []

    def copied(self, reader: Reader, *, decode: bool, drop_unreadable: bool) -> Iterator[Group]:
        """Yield groups of images that are stored as their sources have them; the next one overwrites a group's data.

        Raises:
            BuildError: an image is missing or unreadable (unless `drop_unreadable` or it is known to be broken in the
                owner's archive), or differs from the plan's `expected_sha256`.
        """
        buffer = _Buffer()
        count = ProgressCounter(self.rows.num_rows, self.progress)
        expected = self.expected
        # A published image was readable to its publisher, so only its digest is compared.
        broken = set() if expected else known_broken(self.rows)
        roots, files, offsets, sizes = (self.rows[name].to_pylist() for name in ("root", "file", "offset", "size"))
        # A Path costs more than reading the file.
        paths = [os.path.join(self.roots[root], file) for root, file in zip(roots, files, strict=True)]  # noqa: PTH118
        reader.expect(zip(paths, offsets, sizes, strict=True))
        for number, (path, offset, size) in enumerate(zip(paths, offsets, sizes, strict=True)):
            if buffer.filled and buffer.filled + size > ROW_GROUP_BYTES:
                yield from buffer.group()
            start = buffer.filled
            reader.read_into(buffer.reserve(size), path, offset)
            buffer.filled += size
            count.add(size)
            pixels = ""
            try:
                if decode or number in broken:
                    mended, pixels = images.check_pixels(buffer.view(start))
                else:
                    mended = images.check_image(buffer.view(start))
            except images.UnreadableImageError as error:
                if not drop_unreadable and number not in broken:
                    raise unreadable_image(self.rows, number, path, error) from error
                self.dropped.append((self.rows["id"][number].as_py(), str(error)))
                buffer.filled = start
            else:
                if mended is not None:
                    buffer.replace(start, mended)
                digest = hashlib.sha256(buffer.view(start)).hexdigest()
                if expected and digest != expected[number]:
                    raise self._other_content(number, digest, path)
                buffer.keep(number, digest, "source" if mended is None else "metadata_removed", pixels)
                if ends_group(buffer.filled, buffer.filled - start, digest):
                    yield from buffer.group()
        yield from buffer.group()

    def generated(self, reader: Reader, stored: images.Stored = "pixels") -> Iterator[Group]:
        """Yield groups of generated images, which are read from packs.

        The plan has their `content_sha256`, and in `unreadable` the reason if an image could not be generated.

        Raises:
            BuildError: a pack cannot be read, or an image differs from `expected_sha256`.
        """
        failed = self.rows.filter(pc.not_equal(self.rows["unreadable"], ""))
        self.dropped += zip(failed["id"].to_pylist(), failed["unreadable"].to_pylist(), strict=True)
        if failed.num_rows:
            self.progress(failed.num_rows, 0)
        numbers = np.flatnonzero(pc.equal(self.rows["unreadable"], "").to_numpy())
        readable = self.rows.take(pa.array(numbers))
        digests, expected = readable["content_sha256"].to_pylist(), self.expected
        ends = np.cumsum(readable["size"].to_numpy())
        first = 0
        while first < len(numbers):
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + ROW_GROUP_BYTES, side="right")))
            for row in range(int(np.searchsorted(ends, before + _LEAST_BYTES)), last):
                if ends_group(int(ends[row]) - before, int(ends[row] - (ends[row - 1] if row else 0)), digests[row]):
                    last = row + 1
                    break
            size = int(ends[last - 1]) - before
            data = np.empty(size, np.uint8)
            self._read_generated(readable.slice(first, last - first), data.data, reader)
            for number, digest in zip(numbers[first:last].tolist(), digests[first:last], strict=True):
                if expected and digest != expected[number]:
                    raise self._other_content(number, digest, self._path(self.rows, number))
            offsets = pa.array(np.concatenate([[0], ends[first:last] - before]), pa.int32())
            all_stored: Sequence[images.Stored] = [stored] * (last - first)
            yield Group(pa.array(numbers[first:last]), offsets, pa.py_buffer(data), digests[first:last], all_stored)
            first = last

    def _read_generated(self, rows: pa.Table, target: memoryview, reader: Reader) -> None:
        """Read images into one buffer; images that are adjacent in a pack are read at once."""
        files = rows["file"].combine_chunks().dictionary_encode()
        codes, offsets, sizes = files.indices.to_numpy(), rows["offset"].to_numpy(), rows["size"].to_numpy()
        apart = (codes[1:] != codes[:-1]) | (offsets[1:] != offsets[:-1] + sizes[:-1])
        filled = 0
        starts = [0, *(np.flatnonzero(apart) + 1).tolist()]
        for start, stop in zip(starts, [*starts[1:], len(sizes)], strict=True):
            size = int(sizes[start:stop].sum())
            reader.read_into(target[filled : filled + size], self._path(rows, start), int(offsets[start]))
            filled += size
            self.progress(stop - start, size)

    def _path(self, rows: pa.Table, number: int) -> str:
        return os.path.join(self.roots[rows["root"][number].as_py()], rows["file"][number].as_py())  # noqa: PTH118

    def _other_content(self, number: int, digest: str, path: str) -> BuildError:
        expected = self.rows["expected_sha256"][number]
        return BuildError(
            f"The image {self.rows['id'][number]} is not the published one: its content_sha256 is {digest}, not "
            f"{expected} ({image_place(self.rows, number, path)}). Give the edition that the publisher used."
        )


class _Buffer:
    """Collects the images of a row group: their bytes, concatenated, and their rows in the plan."""

    def __init__(self) -> None:
        # Not a bytearray, which would be zeroed first.
        self.data: npt.NDArray[np.uint8] = np.empty(ROW_GROUP_BYTES, np.uint8)
        self.clear()

    def clear(self) -> None:
        self.filled = 0
        self.numbers, self.offsets = list[int](), [0]
        self.digests, self.stored, self.pixels = list[str](), list[images.Stored](), list[str]()

    def reserve(self, size: int) -> memoryview:
        """Return room for `size` more bytes; the buffer grows for an image larger than all of it."""
        if self.filled + size > len(self.data):
            grown = np.empty(self.filled + size, np.uint8)
            grown[: self.filled] = self.data[: self.filled]
            self.data = grown
        return self.data.data[self.filled : self.filled + size]

    def view(self, start: int) -> memoryview:
        return self.data.data[start : self.filled]

    def replace(self, start: int, data: bytes) -> None:
        self.filled = start
        self.reserve(len(data))[:] = data
        self.filled += len(data)

    def keep(self, number: int, digest: str, stored: images.Stored, pixels: str) -> None:
        self.numbers.append(number)
        self.offsets.append(self.filled)
        self.digests.append(digest)
        self.stored.append(stored)
        if pixels:
            self.pixels.append(pixels)

    def group(self) -> Iterator[Group]:
        """Yield the collected images as a group, if there are any, and begin the next."""
        if self.numbers:
            offsets = pa.array(self.offsets, pa.int32())
            data = pa.py_buffer(self.data.data[: self.filled])
            yield Group(pa.array(self.numbers, pa.int64()), offsets, data, self.digests, self.stored, self.pixels)
        self.clear()
