"""Reads byte ranges of files: images in files of their own, in archives, in arrays and in packs.

In a store they are fetched ahead (`builders.storage.stores.prefetch`), which a caller that knows them announces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.storage.paths import is_remote
from builders.storage.regular import open_regular

if TYPE_CHECKING:
    from builders.storage.stores.prefetch import Prefetch, Read

PACK_SUFFIX = ".pack"
"""Suffix of every pack; the record of its images stays beside it when the pack is removed."""


class Reader:
    """Reads byte ranges and keeps the last file open: an archive or pack holds thousands of images in a row.

    Args:
        versions: of archives in a store, by address (`builders.sources.base.SourceIndex.versions`).
    """

    def __init__(self, versions: Mapping[str, str] | None = None) -> None:
        self._path = ""
        self._raw: FileIO | None = None
        self._versions = versions or {}
        self._ahead: Prefetch | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        if self._ahead is not None:
            self._ahead.close()

    def expect(self, reads: Iterable[tuple[str, int, int]]) -> None:
        """Announce all reads in their order, as path, offset and size: what is in a store is fetched ahead.

        Images in a store are only known to be of the archives that were listed once all that was announced is read.
        """
        remote = [self._read(*read) for read in reads if is_remote(read[0])]
        if remote:
            self._fetcher().expect(remote)

    def read_into(self, target: memoryview, path: str, offset: int) -> None:
        """Fill a buffer from a file, from an offset on.

        Raises:
            BuildError: the file cannot be read or is too short.
        """
        if is_remote(path):
            target[:] = self._fetched(path, offset, len(target))
            return
        try:
            _fill(self._opened(path), target, offset, path)
        except OSError as error:
            raise _unreadable(error, path) from error

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read some bytes of a file.

        Raises:
            BuildError: the file cannot be read or has too few bytes.
        """
        if is_remote(path):
            return self._fetched(path, offset, size)
        try:
            raw = self._opened(path)
            raw.seek(offset)
            data = raw.read(size)
        except OSError as error:
            raise _unreadable(error, path) from error
        if data is None or len(data) != size:  # a read may stop early
            whole = bytearray(size)
            self.read_into(memoryview(whole), path, offset)
            return bytes(whole)
        return data

    def read_rows(
        self, target: npt.NDArray[np.uint8], numbers: Sequence[int], path: str, offsets: Sequence[int]
    ) -> None:
        """Fill rows of an array, each from its own offset in one file.

        Args:
            target: shape (n, bytes of a row), each row contiguous.
            numbers: the rows to fill.
            path: the file.
            offsets: byte offset of each of these rows.

        Raises:
            BuildError: the file cannot be read or is too short.
        """
        if is_remote(path):
            size = target.shape[1]
            for number, offset in zip(numbers, offsets, strict=True):
                target[number].data[:] = self._fetched(path, offset, size)
            return
        try:
            raw = self._opened(path)
            for number, offset in zip(numbers, offsets, strict=True):
                _fill(raw, target[number].data, offset, path)
        except OSError as error:
            raise _unreadable(error, path) from error

    def _read(self, path: str, offset: int, size: int) -> Read:
        from builders.storage.stores.prefetch import Read

        # What is no archive and no pack of ours is an image: its bytes are all of its file.
        whole = offset == 0 and path not in self._versions and not path.endswith(PACK_SUFFIX)
        return Read(path, offset, size, whole)

    def _fetcher(self) -> Prefetch:
        if self._ahead is None:
            from builders.storage.stores.prefetch import Prefetch

            self._ahead = Prefetch(self._versions)
        return self._ahead

    def _fetched(self, path: str, offset: int, size: int) -> bytes:
        try:
            data = self._fetcher().take(self._read(path, offset, size))
        except OSError as error:
            raise _unreadable(error, path) from error
        if len(data) != size:
            raise _other_size(path, size, len(data))
        return data

    def _opened(self, path: str) -> FileIO:
        if self._raw is None or path != self._path:
            self._close()
            self._raw = open_regular(path)
            self._path = path
        return self._raw

    def _close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None


def read_starts(root: Path, places: Sequence[tuple[str, int, int]]) -> Iterator[bytes]:
    """Read the first bytes of some images, a few hundred at most.

    Args:
        root: the source's folder.
        places: file relative to it, offset, and bytes wanted, of each. Fewer are read where the file ends before.

    Raises:
        OSError, BuildError: a file cannot be read.
    """
    if is_remote(root):
        from builders.storage.stores.prefetch import Read
        from builders.storage.stores.prefetch import read_starts as fetched

        yield from fetched([Read(os.path.join(str(root), file), offset, size) for file, offset, size in places])  # noqa: PTH118
        return
    for file, offset, size in places:
        with open_regular(root / file) as opened:
            opened.seek(offset)
            yield opened.read(size)


def _fill(raw: FileIO, target: memoryview, offset: int, path: str) -> None:
    size = len(target)
    raw.seek(offset)
    got = raw.readinto(target)
    while got < size and (more := raw.readinto(target[got:])):
        got += more
    if got != size:
        raise _other_size(path, size, got)


def _other_size(path: str, expected: int, found: int) -> BuildError:
    shown = f"{found:,}" if found < expected else "more"  # of a file in a store that grew one more byte was read
    return BuildError(
        f"{path} changed during the build: expected {expected:,} bytes, found {shown}. Run the same command again; it "
        "resumes."
    )


def _unreadable(error: OSError, path: str) -> BuildError:
    return BuildError(
        f"Cannot read {path}: {error.strerror}. Restore it in the source folder and run the same command again; it "
        "resumes."
    )
