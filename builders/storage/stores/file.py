"""Reads files in a store by ranges; the more of a file is used, the further ahead it is read.

A tar's headers lie between its images: after each, a reader skips as many bytes as the image has. A request takes as
long as reading two megabytes, so what is skipped is read, too, and one request serves dozens of headers. fsspec's own
caches either read no further than was asked after a skip (`adaptive`), or as far wherever they are (`readahead`).

Tested by `tests/builders/storage/stores/test_errors.py` and `test_read_ahead.py`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from fsspec.caching import BaseCache, register_cache

from builders.storage.stores.errors import store_errors


class RangedFile(io.RawIOBase):
    """A file of fsspec that raises errors with messages for users."""

    def __init__(self, opened: Any, address: str) -> None:
        super().__init__()
        self._opened, self.name = opened, address

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._opened.seek(offset, whence))

    def read(self, size: int | None = -1) -> bytes:
        # In one request, or from what was read ahead.
        with store_errors("read", self.name):
            return bytes(self._opened.read(-1 if size is None else size))

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self.read()

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()


_LEAST = 1 << 16
"""Bytes behind those asked for that a first request reads, and one after a jump (ours)."""

_MOST = 32 << 20
"""Bytes that are read ahead at most (ours), besides those of the last read."""

_NEAR = 2 << 20
"""Bytes that may be skipped without ending a run (ours): they take as long as a request, 30 ms at 70 MB/s."""

_PART = 4 << 20
"""Bytes of one request; several are sent at the same time (ours). AWS advises 8 to 16 MB, for a few streams."""

TOGETHER = 8
"""Requests at the same time."""


class GrowingReadAhead(BaseCache):  # type: ignore[misc]  # fsspec has no types
    """A cache of the bytes around the last read, for `fsspec.open(cache_type="growing")`.

    `fetcher` reads the bytes from one place up to another, called by `concurrency` threads: 1 where a filesystem
    answers one request at a time.
    """

    name: ClassVar[str] = "growing"

    def __init__(
        self, blocksize: int, fetcher: Callable[[int, int], bytes], size: int, concurrency: int = TOGETHER
    ) -> None:
        super().__init__(blocksize, fetcher, size)
        self._concurrency = concurrency
        self._first, self._data, self._ahead = 0, b"", _LEAST

    def _fetch(self, start: int | None, end: int | None) -> bytes:
        """Return the bytes from `start` up to `end`, or up to the file's end."""
        start, stop = start or 0, self.size if end is None else min(end, self.size)
        if start >= stop:
            return b""
        if not self._first <= start <= stop <= self._first + len(self._data):
            self._move(start, stop)
        return self._data[start - self._first : stop - self._first]

    def _move(self, start: int, stop: int) -> None:
        """Read what is missing of some bytes, and ahead of them."""
        end = self._first + len(self._data)
        near = self._first <= start <= end + _NEAR
        self._ahead = min(2 * self._ahead, _MOST) if near else _LEAST
        tail = self._data[start - self._first :] if near else b""
        after = min(max(stop, start + len(tail)) + self._ahead, self.size)
        self._data = tail + self._read(start + len(tail), after)
        self._first = start

    def _read(self, start: int, stop: int) -> bytes:
        if self._concurrency == 1 or stop - start <= _PART:
            return bytes(self.fetcher(start, stop))
        starts = range(start, stop, _PART)
        with ThreadPoolExecutor(self._concurrency) as threads:
            return b"".join(threads.map(lambda first: self.fetcher(first, min(first + _PART, stop)), starts))


register_cache(GrowingReadAhead, clobber=True)
