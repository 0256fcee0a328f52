"""Reads byte ranges of files: images in files of their own, in archives, in arrays and in packs.

In a store, ranges that the caller announces are fetched ahead (`builders.storage.stores.prefetch`).
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BufferedReader
from typing import TYPE_CHECKING

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
        self._file: BufferedReader | None = None

    def expect(self, reads: Iterable[tuple[str, int, int]]) -> None:
        """Announce all reads in their order, as path, offset and size: what is in a store is fetched ahead."""

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read some bytes of a file; fewer where it ends before."""
        return self._at(path, offset).read(size)

    def read_into(self, target: memoryview, path: str, offset: int) -> int:
        """Fill a buffer from a file, and return the number of bytes; fewer where the file ends before."""
        return self._at(path, offset).readinto(target)

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _at(self, path: str, offset: int) -> BufferedReader:
        if self._file is None or path != self._path:
            self.close()
            self._file, self._path = BufferedReader(open_here(path)), path
        self._file.seek(offset)
        return self._file


class Reader:
    """Reads byte ranges of files, wherever each lies; raises `BuildError` for one that is missing or too short."""

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
        data = bytearray(size)
        self.read_into(memoryview(data), path, offset)
        return bytes(data)

    def read_into(self, target: memoryview, path: str, offset: int) -> None:
        """Fill a buffer from a file, from an offset on."""
        try:
            count = self._ranges_of(path).read_into(target, path, offset)
        except OSError as error:
            raise BuildError(
                f"Cannot read {path}: {error.strerror}. Restore it in the source folder and run the same command "
                "again; it resumes."
            ) from error
        if count != len(target):
            raise BuildError(
                f"{path} changed during the build: expected {len(target):,} bytes, found {count:,}. Run the same "
                "command again; it resumes."
            )

    def _ranges_of(self, path: str) -> Ranges:
        store = store_of(path)
        if store not in self._ranges:
            self._ranges[store] = store.ranges()
        return self._ranges[store]
