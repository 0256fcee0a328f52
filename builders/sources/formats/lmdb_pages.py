"""Lists the entries of an LMDB database with byte offsets, so that values are read in place.

The `lmdb` library trusts the file that it maps into memory: a damaged page number, or a file that shrinks meanwhile,
kills the process. Here every page is read as bytes and checked. The format is that of LMDB 0.9 as 64-bit little-endian
machines write it (OpenLDAP's `mdb.c`: MDB_page, MDB_meta, MDB_db, MDB_node).

Tested by `tests/builders/sources/test_lsun.py`.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator
from io import BytesIO, FileIO
from typing import NamedTuple

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_HEADER = struct.Struct("<QHHHH")  # page number, unused, flags, lower and upper end of the free space
_VALUE_HEADER = struct.Struct("<Q2xHI")  # page number, flags, number of pages
_META_BYTES = 136  # magic, version, address, size of the map, two trees of 48 bytes, last page, transaction
_NODE = struct.Struct("<HHHH")  # two halves of a size or page number, flags, bytes of the key
_BRANCH, _LEAF, _OVERFLOW = 0x01, 0x02, 0x04
_KINDS = 0x7F  # of a page's flags; the one above marks pages that a running transaction wrote
_BIG = 0x01  # flag of a node whose value is on pages of its own
_NO_ROOT = 2**64 - 1
_DEEPEST = 32  # LMDB's own limit
_LEAST, _MOST = 512, 32768  # bytes of a page
_META_PAGES = 2


class LmdbError(ValueError):
    """A damaged database; the message has no full stop."""


class TruncatedError(ValueError):
    """The file ends before its last page; `needed` and its `size` are in bytes."""

    def __init__(self, needed: int, size: int) -> None:
        super().__init__(needed, size)
        self.needed, self.size = needed, size


class LmdbEntry(NamedTuple):
    """A key, and the offset and size in bytes of its value in the file."""

    key: bytes
    start: int
    size: int


class _Meta(NamedTuple):
    flags: int
    depth: int
    entries: int
    root: int
    last_page: int
    transaction: int


def list_entries(file: FileIO | BytesIO) -> list[LmdbEntry]:
    """List all entries in key order.

    Raises:
        LmdbError: the file is no such database, or is damaged.
        TruncatedError: the file is shorter than the database says.
    """
    page_size, meta = _metas(file)
    length = file.seek(0, os.SEEK_END)
    needed = (meta.last_page + 1) * page_size
    if length < needed:
        raise TruncatedError(needed, length)
    tree = _PageTree(file, page_size, meta)
    entries = [] if meta.root == _NO_ROOT else list(tree.walk(meta.root, 1))
    tree.refuse_shared_pages()
    if len(entries) != meta.entries:
        raise LmdbError(f"it has {len(entries):,} entries where it says {meta.entries:,}")
    if any(first.key >= second.key for first, second in itertools.pairwise(entries)):
        raise LmdbError("its keys are not in order")
    return entries


def _metas(file: FileIO | BytesIO) -> tuple[int, _Meta]:
    """Read the first two pages, and return the page size and the page of the later transaction."""
    head = _read(file, 0, _HEADER.size + _META_BYTES)
    (page_size,) = struct.unpack_from("<I", head, _HEADER.size + 24)
    if not _LEAST <= page_size <= _MOST or page_size & (page_size - 1):
        raise LmdbError("its first page is not that of a database")
    metas = [_meta(_read(file, number * page_size, len(head))) for number in (0, 1)]
    meta = max(metas, key=lambda meta: meta.transaction)
    if meta.flags:
        raise LmdbError("its keys are no plain texts with one value each")
    return page_size, meta


def _meta(page: bytes) -> _Meta:
    magic, version = struct.unpack_from("<II", page, _HEADER.size)
    if magic != _MAGIC or version != _VERSION:
        raise LmdbError("its first pages are not those of a database of LMDB 0.9")
    flags, depth = struct.unpack_from("<HH", page, _HEADER.size + 76)
    count, root, last_page, transaction = struct.unpack_from("<QQQQ", page, _HEADER.size + 104)
    return _Meta(flags, depth, count, root, last_page, transaction)


class _PageTree:
    """The pages of a database. Each is used once, so that a walk ends and values are no larger than the file."""

    def __init__(self, file: FileIO | BytesIO, page_size: int, meta: _Meta) -> None:
        if meta.depth > _DEEPEST:
            raise LmdbError(f"its tree has {meta.depth:,} levels")
        self.file, self.page_size, self.meta = file, page_size, meta
        self.used: set[int] = set()
        self.values: list[tuple[int, int]] = []

    def walk(self, number: int, level: int) -> Iterator[LmdbEntry]:
        """Yield the entries on a page and the pages below it."""
        kind = _LEAF if level == self.meta.depth else _BRANCH
        self._refuse_outside(number, 1)
        if number in self.used:
            raise LmdbError(f"page {number:,} has two places")
        self.used.add(number)
        filled = 0
        page = _read(self.file, number * self.page_size, self.page_size)
        for offset in self._nodes(page, number, kind):
            low, high, flags, key_size = _NODE.unpack_from(page, offset)
            data = offset + _NODE.size + key_size
            if data > self.page_size:
                raise LmdbError(f"page {number:,} has a key that reaches beyond it")
            if kind == _BRANCH:
                yield from self.walk(low | high << 16 | flags << 32, level + 1)
                continue
            size = low | high << 16
            stop = data + (8 if flags & _BIG else size)
            filled += stop - offset
            if flags & ~_BIG or stop > self.page_size or filled > self.page_size:
                raise LmdbError(f"page {number:,} has values that reach beyond it, share bytes or are no plain ones")
            start = self._overflow_start(page, data, size) if flags & _BIG else number * self.page_size + data
            yield LmdbEntry(page[offset + _NODE.size : data], start, size)

    def _nodes(self, page: bytes, number: int, kind: int) -> tuple[int, ...]:
        """Return the offsets of the nodes of a page."""
        own, _, flags, lower, upper = _HEADER.unpack_from(page)
        count = (lower - _HEADER.size) // 2
        if own != number or flags & _KINDS != kind or not _HEADER.size < lower <= upper <= self.page_size:
            raise LmdbError(f"page {number:,} is not what it should be")
        offsets = struct.unpack_from(f"<{count}H", page, _HEADER.size)
        if min(offsets) < upper or max(offsets) > self.page_size - _NODE.size:
            raise LmdbError(f"page {number:,} has an entry outside of it")
        return offsets

    def _overflow_start(self, page: bytes, offset: int, size: int) -> int:
        """Return the offset in the file of a value that has pages of its own."""
        first: int = struct.unpack_from("<Q", page, offset)[0]
        pages = -(-(_HEADER.size + size) // self.page_size)
        self._refuse_outside(first, pages)
        self.values.append((first, pages))
        own, flags, claimed_pages = _VALUE_HEADER.unpack(_read(self.file, first * self.page_size, _HEADER.size))
        if own != first or flags & _KINDS != _OVERFLOW or claimed_pages < pages:
            raise LmdbError(f"page {first:,} is not the first of a value of {size:,} bytes")
        return first * self.page_size + _HEADER.size

    def _refuse_outside(self, first: int, pages: int) -> None:
        if not _META_PAGES <= first <= first + pages - 1 <= self.meta.last_page:
            raise LmdbError(f"it refers to page {first:,}, and the last one is {self.meta.last_page:,}")

    def refuse_shared_pages(self) -> None:
        """Refuse a database in which a page belongs to two values, or to a value and the tree."""
        runs = sorted([*self.values, *((number, 1) for number in self.used)])
        for (first, pages), (second, _) in itertools.pairwise(runs):
            if first + pages > second:
                raise LmdbError(f"page {second:,} has two places")


def _read(file: FileIO | BytesIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    data = file.read(size)
    if data is None or len(data) != size:
        raise TruncatedError(offset + size, offset + len(data or b""))
    return data
