"""Where an export's files go: to the disk, or nowhere while they are counted.

Tested by `tests/hf_scripts/test_export_runs.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from builders.errors import BuildError
from builders.storage.atomic import atomic_path

Bytes = bytes | memoryview


class Sink(Protocol):
    """A file that is written from start to end."""

    def write(self, data: Bytes, /) -> object:
        """Write the next bytes."""


class Target(Protocol):
    """Takes the files of one split.

    It knows how many there were, how many bytes they have, and the sizes of those that were streamed.
    """

    files: int
    bytes: int
    streamed: dict[Path, int]

    def put(self, path: Path, data: Bytes) -> None:
        """Take a whole file."""

    def stream(self, path: Path, *, keep: bool = False) -> contextlib.AbstractContextManager[Sink]:
        """Take a file bit by bit; it is there when the block ends well.

        Args:
            path: the file.
            keep: a file that is there already is compared with what is written, and stays.
        """


class _Counting:
    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0
        self.streamed: dict[Path, int] = {}

    def _count(self, size: int) -> None:
        self.files += 1
        self.bytes += size

    def _count_streamed(self, sink: _CountingSink) -> None:
        self._count(sink.bytes)
        self.streamed[sink.path] = sink.bytes


class DryRunTarget(_Counting):
    """A target that counts and writes nothing."""

    def put(self, path: Path, data: Bytes) -> None:
        """Count a whole file."""
        self._count(len(data))

    @contextlib.contextmanager
    def stream(self, path: Path, *, keep: bool = False) -> Iterator[Sink]:
        """Count a file bit by bit."""
        sink = _CountingSink(path)
        yield sink
        self._count_streamed(sink)


class DiskTarget(_Counting):
    """A target that writes files under a temporary name and renames them: under its own name a file is whole."""

    def put(self, path: Path, data: Bytes) -> None:
        """Write a whole file; one with these bytes stays as it is."""
        self._count(len(data))
        if not _has_content(path, data):
            with atomic_path(path) as temporary:
                temporary.write_bytes(data)

    @contextlib.contextmanager
    def stream(self, path: Path, *, keep: bool = False) -> Iterator[Sink]:
        """Write a file bit by bit, or compare one that is to be kept.

        Raises:
            BuildError: with `keep`, the file that is there has other bytes.
        """
        if keep and path.is_file():
            with path.open("rb") as there:
                compared = _ComparingSink(path, there)
                yield compared
                compared.end()
                self._count_streamed(compared)
        else:
            with atomic_path(path) as temporary, temporary.open("wb") as opened:
                written = _FileSink(path, opened)
                yield written
                self._count_streamed(written)


class _CountingSink:
    """A sink that knows how much was written to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = 0

    def write(self, data: Bytes, /) -> None:
        self.bytes += len(data)


class _FileSink(_CountingSink):
    def __init__(self, path: Path, opened: IO[bytes]) -> None:
        super().__init__(path)
        self.opened = opened

    def write(self, data: Bytes, /) -> None:
        super().write(data)
        self.opened.write(data)


class _ComparingSink(_CountingSink):
    """Compares what would be written with a file that an earlier run finished."""

    def __init__(self, path: Path, there: IO[bytes]) -> None:
        super().__init__(path)
        self.there = there

    def write(self, data: Bytes, /) -> None:
        super().write(data)
        if self.there.read(len(data)) != data:
            raise self._differs()

    def end(self) -> None:
        """Make sure that the file ends where the writing ends."""
        if self.there.read(1):
            raise self._differs()

    def _differs(self) -> BuildError:
        return BuildError(
            f"expected the bytes that this export writes, found others at {self.path}; remove that file and run the "
            "same command again."
        )


def _has_content(path: Path, data: Bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:
        return False
