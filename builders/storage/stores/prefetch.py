"""Fetches images from a store before they are asked for, many at a time.

A request takes 30 ms wherever the store is, and an image is read in one. A worker knows the images of its shard in
their order, so while it works on some, the next are on their way. Ranges that lie close together in one archive are
one request.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from builders.storage.stores.errors import EMPTY, code_of, store_errors
from builders.storage.stores.path import TOGETHER, filesystem_of

BATCH_BYTES = 16 << 20
"""Bytes of images that are fetched in one go (ours). Those in use, the next ones and the blocks that these are cut out
of are in memory: 64 MB."""

_BATCH_READS = 8192
"""Images of a batch at most (ours)."""

_GAP = 1 << 17
"""Greatest gap in bytes between two ranges of one request, which is read as well (ours): a request takes 2 ms of
processor time, in which 128 KB arrive."""

_BLOCK = 4 << 20
"""Bytes of a request that serves several images (ours)."""

_BLOCKS = 2 * BATCH_BYTES
"""Bytes of blocks that are in memory before the images are cut out of them."""


class Read(NamedTuple):
    """A request for some bytes of a file in a store; `path` is its address."""

    path: str
    offset: int
    size: int


class _Block(NamedTuple):
    """The bytes `start:stop` of a file, fetched by one request for some reads."""

    path: str
    start: int
    stop: int
    reads: list[Read]

    @property
    def size(self) -> int:
        return self.stop - self.start


class RemoteRanges:
    """Reads byte ranges of files in stores; announced ranges are fetched ahead, others when they are read."""

    def __init__(self) -> None:
        self._batches: Iterator[list[Read]] = iter(())
        self._left: set[Read] = set()
        self._contents: dict[Read, bytes] = {}
        self._next: Future[dict[Read, bytes]] | None = None
        self._thread = ThreadPoolExecutor(1)

    def expect(self, reads: Iterable[tuple[str, int, int]]) -> None:
        """Announce all coming reads in order and begin to fetch them; drops what was announced before."""
        announced = [Read(*read) for read in reads if read[2]]
        self._left, self._contents = set(announced), {}
        self._batches = _grouped(announced, BATCH_BYTES)
        self._begin()

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Read some bytes of a file; fewer if the file ends before."""
        read = Read(path, offset, size)
        if not size:
            return b""
        while read not in self._contents and read in self._left and self._next is not None:
            self._contents = self._next.result()
            self._left -= self._contents.keys()
            self._begin()
        return self._contents[read] if read in self._contents else _fetch([read])[read]

    def read_into(self, target: memoryview, path: str, offset: int) -> int:
        """Fill a buffer from a file; returns the number of bytes, fewer if the file ends before."""
        data = self.read(path, offset, len(target))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Free what was fetched without waiting for requests that are in flight."""
        self._contents, self._batches = {}, iter(())
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        batch = next(self._batches, None)
        self._next = None if batch is None else self._thread.submit(_fetch, batch)


def _fetch(reads: Sequence[Read]) -> dict[Read, bytes]:
    contents: dict[Read, bytes] = {}
    for blocks in _grouped(_blocks(reads), _BLOCKS):
        for block, data in _fetch_blocks(blocks):
            for read in block.reads:
                first = read.offset - block.start
                contents[read] = data[first : first + read.size]
    return contents


def _blocks(reads: Sequence[Read]) -> list[_Block]:
    """Put reads that are close together into blocks."""
    blocks: list[_Block] = []
    for read in sorted(set(reads)):
        stop = read.offset + read.size
        last = blocks[-1] if blocks and blocks[-1].path == read.path else None
        if last is not None and read.offset <= last.stop + _GAP and stop - last.start <= _BLOCK:
            last.reads.append(read)
            blocks[-1] = last._replace(stop=max(last.stop, stop))
        else:
            blocks.append(_Block(read.path, read.offset, stop, [read]))
    return blocks


_Sized = TypeVar("_Sized", Read, _Block)


def _grouped(items: Iterable[_Sized], most: int) -> Iterator[list[_Sized]]:
    """Divide reads or blocks, in their order, into lists of some bytes and `_BATCH_READS` at most."""
    group: list[_Sized] = []
    size = 0
    for item in items:
        if group and (size + item.size > most or len(group) == _BATCH_READS):
            yield group
            group, size = [], 0
        group.append(item)
        size += item.size
    if group:
        yield group


def _fetch_blocks(blocks: Sequence[_Block]) -> Iterator[tuple[_Block, bytes]]:
    """Send the requests of some blocks at the same time, and yield their bytes; fewer where a file ends before."""
    for _, group in itertools.groupby(blocks, lambda block: block.path.partition("://")[0]):
        of_store = list(group)
        fs = filesystem_of(of_store[0].path)
        with store_errors("read", of_store[0].path):
            answers = fs.cat_ranges(
                [fs._strip_protocol(block.path) for block in of_store],
                [block.start for block in of_store],
                [block.stop for block in of_store],
                on_error="return",
                **({"batch_size": TOGETHER} if fs.async_impl else {}),
            )
        for block, answer in zip(of_store, answers, strict=True):
            yield block, _bytes(answer, block.path)


def _bytes(answer: Any, path: str) -> bytes:
    if isinstance(answer, BaseException):
        if code_of(answer) in EMPTY:
            return b""
        with store_errors("read", path):
            raise answer
    return bytes(answer)
