"""Targets of an export: the disk, or a dry run that only counts.

Tested by `tests/hf_scripts/test_export_runs.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from builders.errors import BuildError
from builders.storage.atomic import atomic_path, inside
from unknown_detection.durable import flush_all

Bytes = bytes | memoryview

_FLUSHED_TOGETHER = 1000
"""Complete files whose flushing waits for the others. Ours: their names take little memory."""


class Sink(Protocol):
    """A file that is written sequentially."""

    def write(self, data: Bytes, /) -> object:
        """Write the next bytes."""


class Target(Protocol):
    """Receives the files of one split.

    Counts the files and their bytes, and records the sizes of streamed files by path.
    """

    files: int
    bytes: int
    streamed: dict[Path, int]

    def put(self, path: Path, data: Bytes) -> None:
        """Write a complete file, which is durable after `flush`."""

    def flush(self) -> None:
        """Return once every complete file is on the disk."""

    def stream(self, path: Path, *, keep: bool = False) -> contextlib.AbstractContextManager[Sink]:
        """Write a file in pieces; it exists once the block ends without an error.

        Args:
            path: the file.
            keep: compare an existing file with the data instead of replacing it.
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
    """A target that only counts."""

    def put(self, path: Path, data: Bytes) -> None:
        """Count a complete file."""
        self._count(len(data))

    def flush(self) -> None:
        """Nothing was written."""

    @contextlib.contextmanager
    def stream(self, path: Path, *, keep: bool = False) -> Iterator[Sink]:
        """Count a file written in pieces."""
        sink = _CountingSink(path)
        yield sink
        self._count_streamed(sink)


class DiskTarget(_Counting):
    """A target that writes each file under a temporary name and renames it when it is complete.

    Files outside the folder `out` are refused.
    """

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.out = out
        self._checked: set[Path] = set()
        self._unflushed: list[Path] = []

    def put(self, path: Path, data: Bytes) -> None:
        """Write a complete file, unless it has these bytes already."""
        self._count(len(data))
        self._check(path)
        if not _has_content(path, data):
            with atomic_path(path, durable=False) as temporary:
                temporary.write_bytes(data)
        # Also one that is there: the run that wrote it may have been killed before it was flushed.
        self._unflushed.append(path)
        if len(self._unflushed) >= _FLUSHED_TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Flush the complete files, many at a time, which costs a disk far less than one after each."""
        flush_all([*self._unflushed, *sorted({path.parent for path in self._unflushed})])
        self._unflushed.clear()

    @contextlib.contextmanager
    def stream(self, path: Path, *, keep: bool = False) -> Iterator[Sink]:
        """Write a file in pieces, or compare an existing one.

        Raises:
            BuildError: with `keep`, the existing file has other bytes.
        """
        self._check(path)
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

    def _check(self, path: Path) -> None:
        if path.parent not in self._checked:
            inside(self.out, path.relative_to(self.out))
            self._checked.add(path.parent)


class _CountingSink:
    """A sink that counts bytes."""

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
    """Compares the written data with a file of an earlier run."""

    def __init__(self, path: Path, there: IO[bytes]) -> None:
        super().__init__(path)
        self.there = there

    def write(self, data: Bytes, /) -> None:
        super().write(data)
        if self.there.read(len(data)) != data:
            raise self._differs()

    def end(self) -> None:
        """Check that the file ends here."""
        if self.there.read(1):
            raise self._differs()

    def _differs(self) -> BuildError:
        return BuildError(
            f"{self.path} has other bytes than this export would write. Remove it and run the same command again."
        )


def _has_content(path: Path, data: Bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:
        return False
