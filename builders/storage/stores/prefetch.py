"""Fetches images from a store before they are asked for, many at the same time.

A request takes 30 ms wherever the store is, and an image is read in one. A worker knows the images of its shard in
their order, so while it works on some, the next are on their way. Ranges that lie close together in one archive are
one request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from builders.storage.stores.errors import EMPTY, code_of, store_errors
from builders.storage.stores.path import filesystem_of
from builders.storage.stores.settings import TOGETHER
from builders.storage.stores.versions import refuse_changed

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
    """Some bytes of a file in a store, which is named by its address; `whole` if they should be all that it has."""

    path: str
    offset: int
    size: int
    whole: bool = False


def read_starts(reads: Sequence[Read]) -> Iterator[bytes]:
    """Yield the bytes of each read, many at the same time; fewer where a file ends before.

    Raises:
        BuildError: the store refuses or fails.
        FileNotFoundError: a file is no longer there.
    """
    alone = (_Block(read.path, read.offset, read.offset + read.size, [read]) for read in reads)
    for blocks in _grouped(alone, _BLOCKS):
        yield from _fetch_blocks(blocks)


class _Block(NamedTuple):
    """The bytes `start:stop` of a file, fetched by one request for some reads."""

    path: str
    start: int
    stop: int
    reads: list[Read]

    @property
    def size(self) -> int:
        return self.stop - self.start


_Sized = TypeVar("_Sized", Read, _Block)


class Prefetch:
    """Fetches reads ahead that were announced in their order, and others when they are requested.

    Args:
        versions: of archives when they were listed, by address (`builders.storage.stores.listings.version_in`).
    """

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._versions = versions
        self._batches: list[list[Read]] = []
        self._batch_of: dict[Read, int] = {}
        self._number = -1
        self._contents: dict[Read, bytes] = {}
        self._next: Future[dict[Read, bytes]] | None = None
        self._used: set[str] = set()
        self._thread = ThreadPoolExecutor(1)

    def expect(self, reads: Iterable[Read]) -> None:
        """Announce all reads in their order, and begin to fetch; earlier announcements are dropped."""
        self._batches = list(_grouped((read for read in reads if read.size), BATCH_BYTES))
        self._batch_of = {}
        for number, batch in enumerate(self._batches):
            for read in batch:
                self._batch_of.setdefault(read, number)
        self._number, self._contents, self._next = -1, {}, None
        self._begin(0)

    def take(self, read: Read) -> bytes:
        """Return the bytes of a read: fewer if the file ends before, one more if it should be whole and has more.

        The last announced ones are returned only once all archives still have the versions that were listed.

        Raises:
            BuildError: the store refuses or fails, or an archive changed.
            FileNotFoundError: the file is no longer there.
        """
        if not read.size:
            return b""
        number = self._batch_of.get(read, -1)
        while self._number < number and self._next is not None:
            self._contents, self._number = self._next.result(), self._number + 1
            self._begin(self._number + 1)
        if read not in self._contents:
            self._used.add(read.path)
            data = self._fetch([read])[read]
            self._refuse_changed()
            return data
        return self._contents[read]

    def close(self) -> None:
        """Free what was fetched, without waiting for requests in flight."""
        self._contents, self._batches = {}, []
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self, number: int) -> None:
        self._next = self._thread.submit(self._fetch_batch, number) if number < len(self._batches) else None

    def _fetch_batch(self, number: int) -> dict[Read, bytes]:
        batch = self._batches[number]
        self._used.update(read.path for read in batch)
        contents = self._fetch(batch)
        if number == len(self._batches) - 1:
            self._refuse_changed()
        return contents

    def _fetch(self, reads: Sequence[Read]) -> dict[Read, bytes]:
        contents: dict[Read, bytes] = {}
        for blocks in _grouped(_blocks(reads), _BLOCKS):
            for block, data in zip(blocks, _fetch_blocks(blocks), strict=True):
                if len(block.reads) == 1:
                    contents[block.reads[0]] = data
                else:
                    for read in block.reads:
                        first = read.offset - block.start
                        contents[read] = data[first : first + read.size]
        return contents

    def _refuse_changed(self) -> None:
        for path in sorted(self._used & self._versions.keys()):
            refuse_changed(path, self._versions[path])
        self._used.clear()


def _blocks(reads: Sequence[Read]) -> list[_Block]:
    """Put reads that are close together into blocks; a whole file is read a byte further, to see if it grew."""
    blocks: list[_Block] = []
    for read in sorted(set(reads)):
        stop = read.offset + read.size + read.whole
        last = blocks[-1] if blocks and blocks[-1].path == read.path else None
        if last is not None and read.offset <= last.stop + _GAP and stop - last.start <= _BLOCK:
            last.reads.append(read)
            blocks[-1] = last._replace(stop=max(last.stop, stop))
        else:
            blocks.append(_Block(read.path, read.offset, stop, [read]))
    return blocks


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


def _fetch_blocks(blocks: Sequence[_Block]) -> list[bytes]:
    """Send the requests of some blocks at the same time, and return their bytes; fewer where a file ends before."""
    contents: dict[int, bytes] = {}
    by_store: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        by_store.setdefault(block.path.partition("://")[0], []).append(number)
    for numbers in by_store.values():
        fs = filesystem_of(blocks[numbers[0]].path)
        group = [blocks[number] for number in numbers]
        paths = [fs._strip_protocol(block.path) for block in group]
        with store_errors("read", group[0].path):
            answers = fs.cat_ranges(
                paths,
                [block.start for block in group],
                [block.stop for block in group],
                on_error="return",
                **({"batch_size": TOGETHER} if fs.async_impl else {}),
            )
        for number, block, answer in zip(numbers, group, answers, strict=True):
            contents[number] = _bytes(answer, block.path)
    return [contents[number] for number in range(len(blocks))]


def _bytes(answer: Any, path: str) -> bytes:
    if isinstance(answer, BaseException):
        if code_of(answer) in EMPTY:
            return b""
        with store_errors("read", path):
            raise answer
    return bytes(answer)
