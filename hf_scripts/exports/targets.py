"""Writes the files of an export, or counts them in a dry run.

Tested by `tests/hf_scripts/test_export_runs.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from builders.errors import BuildError
from builders.storage.files import atomic_path
from builders.storage.paths import inside
from unknown_detection.durable import flush_all

Bytes = bytes | memoryview

_FLUSHED_TOGETHER = 1000
"""Complete files whose flushing waits for the others. Ours: their names take little memory."""


class Sink:
    """A file that is written sequentially, or compared with what an earlier run wrote.

    Args:
        path: the file.
        opened: the open file; None only counts bytes.
        compares: read `opened` and compare its bytes, instead of writing them.
    """

    def __init__(self, path: Path, opened: IO[bytes] | None, *, compares: bool) -> None:
        self.path, self.bytes = path, 0
        self._opened, self._compares = opened, compares

    def write(self, data: Bytes, /) -> None:
        """Write the next bytes.

        Raises:
            BuildError: the file of an earlier run has other bytes.
        """
        self.bytes += len(data)
        if self._opened is not None and self._compares:
            self._refuse_other(self._opened.read(len(data)), data)
        elif self._opened is not None:
            self._opened.write(data)

    def end(self) -> None:
        """Check that a file of an earlier run ends here."""
        if self._opened is not None and self._compares:
            self._refuse_other(self._opened.read(1), b"")

    def _refuse_other(self, existing: bytes, data: Bytes) -> None:
        if existing != data:
            raise BuildError(
                f"{self.path} has other bytes than this export would write. Remove it and run the same command again."
            )


class Target:
    """Receives the files of one split: each is written under a temporary name and renamed when it is complete.

    Args:
        out: the export's folder; files outside of it are refused. None for a dry run, which only counts.

    Attributes:
        files: files so far.
        bytes: their bytes.
        streamed: sizes of the files written in pieces, by path.
    """

    def __init__(self, out: Path | None) -> None:
        self.out = out
        self.files = self.bytes = 0
        self.streamed: dict[Path, int] = {}
        self._checked: set[Path] = set()
        self._unflushed: list[Path] = []

    def put(self, path: Path, data: Bytes) -> None:
        """Write a complete file, unless it has these bytes already; it is durable after `flush`."""
        self._count(len(data))
        if self.out is None:
            return
        self._check(self.out, path)
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
        """Write a file in pieces; it exists once the block ends without an error.

        Args:
            path: the file.
            keep: compare an existing file with the data instead of replacing it.

        Raises:
            BuildError: with `keep`, the existing file has other bytes.
        """
        with contextlib.ExitStack() as stack:
            opened, compares = None, False
            if self.out is not None:
                self._check(self.out, path)
                compares = keep and path.is_file()
                place = path if compares else stack.enter_context(atomic_path(path))
                opened = stack.enter_context(place.open("rb" if compares else "wb"))
            sink = Sink(path, opened, compares=compares)
            yield sink
            sink.end()
        self._count(sink.bytes)
        self.streamed[path] = sink.bytes

    def _count(self, size: int) -> None:
        self.files += 1
        self.bytes += size

    def _check(self, out: Path, path: Path) -> None:
        if path.parent not in self._checked:
            inside(out, path.relative_to(out))
            self._checked.add(path.parent)


def _has_content(path: Path, data: Bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:
        return False
