"""Writes the files of an export, or counts them in a dry run.

Tested by `tests/hf_scripts/test_export_runs.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from builders.storage.files import atomic_path
from builders.storage.paths import inside
from hf_scripts.exports.names import class_folder
from unknown_detection.durable import flush_all

Bytes = bytes | memoryview

_FLUSHED_TOGETHER = 1000
"""Complete files whose flushing waits for the others. Ours: their names take little memory."""


class Sink:
    """A file that is written from its start to its end; without an open file it only counts bytes."""

    def __init__(self, opened: IO[bytes] | None) -> None:
        self._opened, self._size = opened, 0

    def write(self, data: Bytes, /) -> int:
        """Write the next bytes."""
        self._size += len(data)
        return len(data) if self._opened is None else self._opened.write(data)

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self._size


class Target:
    """Receives the files of one split: each is written under a temporary name and renamed when it is complete.

    A file outside of the export's folder `out` is refused. With `dry_run` nothing is written, and files are counted.
    `streamed` has the sizes of those that are written in pieces, by path, `shard_bytes` is the greatest size of a tar,
    and `folder` names the folder of a class.
    """

    def __init__(
        self, out: Path, shard_bytes: int, *, dry_run: bool, folder: Callable[[str], str] = class_folder
    ) -> None:
        self.out, self.shard_bytes, self._dry_run, self.folder = out, shard_bytes, dry_run, folder
        self.files = self.bytes = 0
        self.streamed: dict[Path, int] = {}
        self._checked: set[Path] = set()
        self._unflushed: list[Path] = []

    def put(self, path: Path, data: Bytes) -> None:
        """Write a complete file, unless it has these bytes already; it is durable after `flush`."""
        self._count(len(data))
        if self._dry_run:
            return
        self._check(path)
        if not (path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data):
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
    def stream(self, path: Path) -> Iterator[Sink]:
        """Write or replace a file in pieces; it exists once the block ends without an error."""
        with contextlib.ExitStack() as stack:
            opened = None
            if not self._dry_run:
                self._check(path)
                opened = stack.enter_context(stack.enter_context(atomic_path(path)).open("wb"))
            sink = Sink(opened)
            yield sink
        self._count(sink.tell())
        self.streamed[path] = sink.tell()

    def _count(self, size: int) -> None:
        self.files += 1
        self.bytes += size

    def _check(self, path: Path) -> None:
        if path.parent not in self._checked:
            inside(self.out, path.relative_to(self.out))
            self._checked.add(path.parent)
