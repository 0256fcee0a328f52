"""Lists the entries of an LMDB database with byte offsets, so that values can be read in place.

The `lmdb` library trusts the file that it maps into memory: a damaged page number, or a file that shrinks meanwhile,
kills the process. Here every page is read as bytes and checked. The format is that of LMDB 0.9 as 64-bit little-endian
machines write it (OpenLDAP's `mdb.c`: MDB_page, MDB_meta, MDB_db, MDB_node).

Tested by `tests/builders/sources/datasets/test_lsun.py`.
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
_META = struct.Struct("<II16xI48xHH24xQQQQ")  # magic, version, page size; of the main tree flags, depth, entries, root
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


class _Tree(NamedTuple):
    """The tree of a database as of its last transaction, which has pages up to `last_page`."""

    page_size: int
    depth: int
    entries: int
    root: int
    last_page: int


def list_entries(file: FileIO | BytesIO) -> list[LmdbEntry]:
    """List all entries in key order.

    Raises:
        LmdbError: the file is no such database, or is damaged.
        TruncatedError: the file is shorter than the database says.
    """
    tree = _read_tree(file)
    length = file.seek(0, os.SEEK_END)
    needed = (tree.last_page + 1) * tree.page_size
    if length < needed:
        raise TruncatedError(needed, length)
    try:
        entries = [] if tree.root == _NO_ROOT else list(_walk(file, tree, tree.root, 1, set()))
    except struct.error as error:
        raise LmdbError("an entry of a page lies outside the page") from error
    if len(entries) != tree.entries:
        raise LmdbError(f"it has {len(entries):,} entries where it says {tree.entries:,}")
    if any(first.key >= second.key for first, second in itertools.pairwise(entries)):
        raise LmdbError("its keys are not in order")
    # So values are no larger than the file, and none is read twice.
    places = sorted((entry.start, entry.size) for entry in entries)
    if any(start + size > following for (start, size), (following, _) in itertools.pairwise(places)):
        raise LmdbError("its values share bytes")
    return entries


def _read_tree(file: FileIO | BytesIO) -> _Tree:
    """Read the first two pages, and return the tree of the later transaction."""
    page_size = _META.unpack(_read(file, _HEADER.size, _META.size))[2]
    if not _LEAST <= page_size <= _MOST or page_size & (page_size - 1):
        raise LmdbError("its first page is not that of a database")
    latest, latest_tree = -1, None
    for number in range(_META_PAGES):
        place = number * page_size + _HEADER.size
        magic, version, _, flags, depth, count, root, last_page, transaction = _META.unpack(
            _read(file, place, _META.size)
        )
        if magic != _MAGIC or version != _VERSION:
            raise LmdbError("its first pages are not those of a database of LMDB 0.9")
        if transaction > latest:
            latest, latest_tree = transaction, (flags, _Tree(page_size, depth, count, root, last_page))
    assert latest_tree is not None
    flags, tree = latest_tree
    if flags:
        raise LmdbError("it has other keys than plain texts with one value each")
    if tree.depth > _DEEPEST:
        raise LmdbError(f"its tree has {tree.depth:,} levels")
    return tree


def _walk(file: FileIO | BytesIO, tree: _Tree, number: int, level: int, used: set[int]) -> Iterator[LmdbEntry]:
    """Yield the entries on a page and the pages below it; each page is used once, so that a walk ends."""
    _refuse_outside(tree, number, 1)
    if number in used:
        raise LmdbError(f"page {number:,} has two places")
    used.add(number)
    place = number * tree.page_size
    page = _read(file, place, tree.page_size)
    own, _, flags, lower, upper = _HEADER.unpack_from(page)
    kind = _LEAF if level == tree.depth else _BRANCH
    if own != number or flags & _KINDS != kind or not _HEADER.size < lower <= upper <= tree.page_size:
        raise LmdbError(f"page {number:,} is not what it should be")
    for offset in struct.unpack_from(f"<{(lower - _HEADER.size) // 2}H", page, _HEADER.size):
        low, high, flags, key_size = _NODE.unpack_from(page, offset)
        data = offset + _NODE.size + key_size
        if kind == _BRANCH:
            yield from _walk(file, tree, low | high << 16 | flags << 32, level + 1, used)
            continue
        size = low | high << 16
        if offset < upper or flags & ~_BIG or data + (8 if flags & _BIG else size) > tree.page_size:
            raise LmdbError(f"page {number:,} has values that reach beyond it, or that are not plain ones")
        start = place + data
        if flags & _BIG:
            start = _own_pages(file, tree, struct.unpack_from("<Q", page, data)[0], size)
        yield LmdbEntry(page[offset + _NODE.size : data], start, size)


def _own_pages(file: FileIO | BytesIO, tree: _Tree, first: int, size: int) -> int:
    """Return the offset in the file of a value that has pages of its own."""
    pages = -(-(_HEADER.size + size) // tree.page_size)
    _refuse_outside(tree, first, pages)
    own, flags, claimed_pages = _VALUE_HEADER.unpack(_read(file, first * tree.page_size, _HEADER.size))
    if own != first or flags & _KINDS != _OVERFLOW or claimed_pages < pages:
        raise LmdbError(f"page {first:,} is not the first of a value of {size:,} bytes")
    return first * tree.page_size + _HEADER.size


def _refuse_outside(tree: _Tree, first: int, pages: int) -> None:
    if not _META_PAGES <= first <= first + pages - 1 <= tree.last_page:
        raise LmdbError(f"it refers to page {first:,}, and the last one is {tree.last_page:,}")


def _read(file: FileIO | BytesIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    data = file.read(size)
    if data is None or len(data) != size:
        raise TruncatedError(offset + size, offset + len(data or b""))
    return data
