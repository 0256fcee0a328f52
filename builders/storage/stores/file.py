"""Reads files in a store by ranges, and the further ahead the more of a file is used.

A tar's headers lie between its images: after each, a reader skips as many bytes as the image has. A request takes as
long as reading two megabytes, so what is skipped is read, too, and one request serves dozens of headers. fsspec's own
caches either read no further than was asked after a skip (`adaptive`), or as far wherever they are (`readahead`).

Tested by `tests/builders/storage/stores/test_errors.py`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from fsspec.caching import BaseCache, register_cache

from builders.storage.stores.errors import store_errors


class RangedFile(io.RawIOBase):
    """A file of fsspec whose errors are sentences."""

    def __init__(self, opened: Any, address: str) -> None:
        super().__init__()
        self._opened, self.name = opened, address

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read from anywhere: always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte; nothing is requested before something is read."""
        return int(self._opened.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; less is read at the end of the file alone.

        Raises:
            BuildError: the store refuses or fails.
            FileNotFoundError: the file was removed.
        """
        target = memoryview(buffer).cast("B")
        with store_errors("read", self.name):
            data = self._opened.read(len(target))
        target[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        """Read bytes, all that are left if no size is given, in one request or from what was read ahead.

        Raises:
            BuildError, FileNotFoundError: as `readinto`.
        """
        with store_errors("read", self.name):
            return bytes(self._opened.read(-1 if size is None else size))

    def readall(self) -> bytes:
        """Read all that is left."""
        return self.read(-1)

    def close(self) -> None:
        """Close the file, and free what was read ahead."""
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

Fetch = Callable[[int, int], bytes]


class GrowingReadAhead(BaseCache):  # type: ignore[misc]  # fsspec has no types
    """The bytes around the last read, for `fsspec.open(cache_type="growing")`.

    Args:
        fetcher: reads the bytes from one place up to another; called by several threads.
        concurrency: requests at the same time; 1 where a filesystem answers one at a time.
    """

    name: ClassVar[str] = "growing"

    def __init__(self, blocksize: int, fetcher: Fetch, size: int, concurrency: int = TOGETHER) -> None:
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
