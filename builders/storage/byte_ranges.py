"""Reads byte ranges of files: images in files of their own, in archives, in arrays and in packs."""

from __future__ import annotations

from collections.abc import Sequence
from io import FileIO

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.storage.regular import open_regular

PACK_SUFFIX = ".pack"
"""Suffix of every pack; the record of its images stays beside it when the pack is removed."""


class Reader:
    """Reads byte ranges and keeps the last file open: an archive or pack holds thousands of images in a row."""

    def __init__(self) -> None:
        self._path = ""
        self._raw: FileIO | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read_into(self, target: memoryview, path: str, offset: int) -> None:
        """Fill a buffer from a file, from an offset on.

        Raises:
            BuildError: the file cannot be read or is too short.
        """
        try:
            _fill(self._opened(path), target, offset, path)
        except OSError as error:
            raise _unreadable(error, path) from error

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read some bytes of a file.

        Raises:
            BuildError: the file cannot be read or has too few bytes.
        """
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
        try:
            raw = self._opened(path)
            for number, offset in zip(numbers, offsets, strict=True):
                _fill(raw, target[number].data, offset, path)
        except OSError as error:
            raise _unreadable(error, path) from error

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


def _fill(raw: FileIO, target: memoryview, offset: int, path: str) -> None:
    size = len(target)
    raw.seek(offset)
    got = raw.readinto(target)
    while got < size and (more := raw.readinto(target[got:])):
        got += more
    if got != size:
        raise BuildError(
            f"{path} changed during the build: expected {size:,} bytes, found {got:,}. Run the same command again; it "
            "resumes."
        )


def _unreadable(error: OSError, path: str) -> BuildError:
    return BuildError(
        f"Cannot read {path}: {error.strerror}. Restore it in the source folder and run the same command again; it "
        "resumes."
    )
