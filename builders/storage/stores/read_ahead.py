"""Reads ahead in a file of a store, further the more of it is used.

A tar's headers lie between its images: after each, a reader skips as many bytes as the image has. A request takes as
long as reading two megabytes, so what is skipped is read, too, and one request serves dozens of headers. fsspec's own
caches either read no further than was asked after a skip (`adaptive`), or as far wherever they are (`readahead`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from fsspec.caching import BaseCache, register_cache

_LEAST = 1 << 16
"""Bytes behind those asked for that a first request reads, and one after a jump (ours)."""

_MOST = 32 << 20
"""Bytes that are read ahead at most (ours); what is kept besides is what they are added to."""

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
        blocksize: not read.
        fetcher: reads the bytes from one place up to another; called by several threads.
        size: bytes of the file.
        together: requests at the same time; 1 where a filesystem answers one at a time.
    """

    name: ClassVar[str] = "growing"

    def __init__(self, blocksize: int, fetcher: Fetch, size: int, together: int = TOGETHER) -> None:
        super().__init__(blocksize, fetcher, size)
        self._together = together
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
        known = self._first + len(self._data)
        near = self._first <= start <= known + _NEAR
        self._ahead = min(2 * self._ahead, _MOST) if near else _LEAST
        kept = self._data[start - self._first :] if near else b""
        after = min(max(stop, start + len(kept)) + self._ahead, self.size)
        self._data = kept + self._read(start + len(kept), after)
        self._first = start

    def _read(self, start: int, stop: int) -> bytes:
        if self._together == 1 or stop - start <= _PART:
            return bytes(self.fetcher(start, stop))
        starts = range(start, stop, _PART)
        with ThreadPoolExecutor(self._together) as threads:
            return b"".join(threads.map(lambda first: self.fetcher(first, min(first + _PART, stop)), starts))


register_cache(GrowingReadAhead, clobber=True)
