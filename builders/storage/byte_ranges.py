"""Reads byte ranges of files: images in files of their own, in archives, in arrays and in packs.

In a store, ranges that the caller announces are fetched ahead (`builders.storage.stores.prefetch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import FileIO
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.storage.files import open_here
from builders.storage.paths import store_of

if TYPE_CHECKING:
    from builders.storage.store import Store

PACK_SUFFIX = ".pack"
"""Suffix of every pack; the record of its images stays beside it when the pack is removed."""


class Ranges:
    """Reads byte ranges of files of this machine; the last stays open, as an archive holds thousands in a row."""

    def __init__(self) -> None:
        self._path = ""
        self._raw: FileIO | None = None

    def expect(self, reads: Iterable[tuple[str, int, int]]) -> None:
        """Announce all reads in their order, as path, offset and size: what is in a store is fetched ahead."""

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read some bytes of a file.

        Raises:
            BuildError: the file cannot be read or has too few bytes.
        """
        try:
            raw = self._open(path)
            raw.seek(offset)
            data = raw.read(size)
        except OSError as error:
            raise read_error(error, path) from error
        if data is None or len(data) != size:  # a read may stop early
            whole = bytearray(size)
            self.read_into(memoryview(whole), path, offset)
            return bytes(whole)
        return data

    def read_into(self, target: memoryview, path: str, offset: int) -> None:
        """Fill a buffer from a file, from an offset on; raises as `read`."""
        size = len(target)
        try:
            raw = self._open(path)
            raw.seek(offset)
            filled = raw.readinto(target)
            while filled < size and (count := raw.readinto(target[filled:])):
                filled += count
        except OSError as error:
            raise read_error(error, path) from error
        if filled != size:
            raise size_error(path, size, filled)

    def close(self) -> None:
        """Close the file that is open."""
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _open(self, path: str) -> FileIO:
        if self._raw is None or path != self._path:
            self.close()
            self._raw = open_here(path)
            self._path = path
        return self._raw


class Reader:
    """Reads byte ranges of files, wherever each lies; its methods are those of `Ranges`."""

    def __init__(self) -> None:
        self._ranges: dict[Store, Ranges] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for ranges in self._ranges.values():
            ranges.close()

    def expect(self, reads: Iterable[tuple[str, int, int]]) -> None:
        """Announce all reads in their order, as path, offset and size."""
        announced: dict[Ranges, list[tuple[str, int, int]]] = {}
        for read in reads:
            announced.setdefault(self._ranges_of(read[0]), []).append(read)
        for ranges, own_reads in announced.items():
            ranges.expect(own_reads)

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read some bytes of a file."""
        return self._ranges_of(path).read(path, offset, size)

    def read_into(self, target: memoryview, path: str, offset: int) -> None:
        """Fill a buffer from a file, from an offset on."""
        self._ranges_of(path).read_into(target, path, offset)

    def read_rows(
        self, target: npt.NDArray[np.uint8], numbers: Sequence[int], path: str, offsets: Sequence[int]
    ) -> None:
        """Fill rows of an array, each from its own offset in one file.

        `target`: shape (n, bytes of a row), each row contiguous.
        `offsets`: byte offset of each of these rows.
        """
        ranges = self._ranges_of(path)
        for number, offset in zip(numbers, offsets, strict=True):
            ranges.read_into(target[number].data, path, offset)

    def _ranges_of(self, path: str) -> Ranges:
        store = store_of(path)
        if store not in self._ranges:
            self._ranges[store] = store.ranges()
        return self._ranges[store]


def size_error(path: str, expected: int, actual: int) -> BuildError:
    """Return the error for a file that has fewer bytes than when it was listed."""
    return BuildError(
        f"{path} changed during the build: expected {expected:,} bytes, found {actual:,}. Run the same command again; "
        "it resumes."
    )


def read_error(error: OSError, path: str) -> BuildError:
    """Return the error for a file of a source that cannot be read."""
    return BuildError(
        f"Cannot read {path}: {error.strerror}. Restore it in the source folder and run the same command again; it "
        "resumes."
    )
