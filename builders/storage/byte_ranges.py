"""Reads byte ranges of files: images in files of their own, in archives, in arrays and in packs.

In a store, ranges that the caller announces are fetched ahead (`builders.storage.stores.prefetch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from builders.errors import BuildError
from builders.storage.files import open_buffered

if TYPE_CHECKING:
    from builders.storage.stores.prefetch import RemoteRanges

PACK_SUFFIX = ".pack"
"""Suffix of every pack; the record of its images stays beside it when the pack is removed."""

_ADDRESS = "://"
"""What only the text of a path in a store has: `pathlib` leaves no two slashes inside a path of this machine."""


class Reader:
    """Reads byte ranges of files on any storage; a file that is missing or too short is a `BuildError`.

    The last file of this machine stays open, as an archive holds thousands of images in a row.
    """

    def __init__(self) -> None:
        self._path = ""
        self._file: BufferedReader | None = None
        self._remote: RemoteRanges | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in (self._file, self._remote):
            if opened is not None:
                opened.close()

    def expect(self, reads: Iterable[tuple[str, int, int]]) -> None:
        """Announce all coming reads in order, as path, offset and size, so that a store's bytes are fetched ahead."""
        if remote := [read for read in reads if _ADDRESS in read[0]]:
            self._ranges().expect(remote)

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read some bytes of a file."""
        data = bytearray(size)
        self.read_into(memoryview(data), path, offset)
        return bytes(data)

    def read_into(self, target: memoryview, path: str, offset: int) -> None:
        """Fill a buffer with a file's bytes from an offset on."""
        try:
            count = self.read_some(target, path, offset)
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

    def read_some(self, target: memoryview, path: str, offset: int) -> int:
        """Fill a buffer as far as the file reaches; returns the bytes read, raises `OSError` if there is no file."""
        if _ADDRESS in path:
            return self._ranges().read_into(target, path, offset)
        if self._file is None or path != self._path:
            if self._file is not None:
                self._file.close()
            self._file, self._path = open_buffered(path), path
        self._file.seek(offset)
        return self._file.readinto(target)

    def _ranges(self) -> RemoteRanges:
        if self._remote is None:
            from builders.storage.stores.prefetch import RemoteRanges

            self._remote = RemoteRanges()
        return self._remote


def read_starts(root: Path, places: Sequence[tuple[str, int, int]]) -> Iterator[bytes]:
    """Yield byte ranges, given as relative path, offset and size; a range is shorter where its file ends."""
    with Reader() as reader:
        reads = [(str(root / file), offset, size) for file, offset, size in places]
        reader.expect(reads)
        for path, offset, size in reads:
            data = bytearray(size)
            yield bytes(data[: reader.read_some(memoryview(data), path, offset)])
