"""Databases: LSUN's LMDB."""

from __future__ import annotations

import functools
import struct
import tempfile
from pathlib import Path

import lmdb
import numpy as np

from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from tests.fuzz.target import Target

_PAGE = 4096
_WEBP = b"RIFF\x04\x00\x00\x00WEBPVP8 "
_MAIN = 16 + 72  # a page's header, and the fields of the first pages before the tree of entries
_VALUES = (0, 1, 2, 3, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, 2**64 - 1)


@functools.cache
def database(entries: int = 90) -> bytes:
    """A database of three levels of pages, with small values and some that have pages of their own."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        with (
            lmdb.open(folder, map_size=1 << 24, lock=False, sync=False) as environment,
            environment.begin(write=True) as transaction,
        ):
            for number in range(entries):
                size = 5000 if number % 20 == 0 else 400
                transaction.put(b"%040x" % (number * 77), _WEBP + random.bytes(size))
        return Path(folder, "data.mdb").read_bytes()


def changed(place: int, form: str, value: int, data: bytes | None = None) -> bytes:
    """The database with another number at one place, in the first pages at both of them."""
    content = bytearray(database() if data is None else data)
    for start in (place, place + _PAGE) if place < _PAGE else (place,):
        struct.pack_into(f"<{form}", content, start, value)
    return bytes(content)


def number(data: bytes, place: int, form: str = "Q") -> int:
    """The number at one place."""
    (value,) = struct.unpack_from(f"<{form}", data, place)
    return int(value)


def nodes(data: bytes, page: int) -> list[int]:
    """Where the entries of a page begin."""
    count = (number(data, page * _PAGE + 12, "H") - 16) // 2
    return [page * _PAGE + number(data, page * _PAGE + 16 + 2 * i, "H") for i in range(count)]


def sharing(leaf: list[int]) -> bytes:
    """Every value of a leaf reaches to the page's end."""
    data = database()
    for place in leaf:
        data = changed(place, "H", _PAGE - place % _PAGE - 8 - 40, data)
    return data


def cases() -> dict[str, bytes]:
    """Single fields of the tree changed."""
    data = database()
    newest = max((0, 1), key=lambda page: number(data, page * _PAGE + 16 + 128))
    root = number(data, newest * _PAGE + _MAIN + 40)
    branch = nodes(data, root)
    first, second = (number(data, place, "I") for place in branch[:2])
    leaf = nodes(data, first)
    big = [
        place + 8 + 40
        for page in (number(data, place, "I") for place in branch)
        for place in nodes(data, page)
        if number(data, place + 4, "H") == 1
    ]
    changes = {
        "root is a meta page": changed(_MAIN + 40, "Q", 0),
        "root is itself the last": changed(_MAIN + 40, "Q", number(data, newest * _PAGE + _MAIN + 48)),
        "root far beyond the end": changed(_MAIN + 40, "Q", 1 << 40),
        "a leaf twice": changed(branch[1], "I", first),
        "a branch below itself": changed(branch[1], "I", root),
        "a big value far away": changed(big[0], "Q", 1 << 50),
        "a big value on a leaf": changed(big[0], "Q", second),
        "two big values on one page": changed(big[0], "Q", number(data, big[1])),
        "a key beyond its page": changed(leaf[0] + 6, "H", 3000),
        "entries that share bytes": sharing(leaf),
        "more levels than the limit": changed(_MAIN + 6, "H", 40),
        "no levels": changed(_MAIN + 6, "H", 0),
        "page of three bytes": changed(16 + 24, "I", 3),
        "more entries than said": changed(_MAIN + 32, "Q", 7),
    }
    fields = {"root": _MAIN + 40, "last page": _MAIN + 48, "entries": _MAIN + 32, "depth": _MAIN + 6, "page": 16 + 24}
    pages = {"root page": root * _PAGE, "leaf": first * _PAGE}
    heads = {f"{name} {at}": place + at for name, place in pages.items() for at in (0, 10, 12, 14, 16, 18)}
    entry = {f"entry {at}": leaf[0] + at for at in (0, 2, 4, 6, 8)} | {"branch": branch[0], "big": big[0]}
    for name, place in (fields | heads | entry).items():
        for value in _VALUES:
            form = "H" if value < 1 << 16 else "I" if value < 1 << 32 else "Q"
            changes[f"{name} is {value}"] = changed(place, form, value)
    return changes


TARGETS = (
    Target(
        "lmdb",
        "test_lmdb/data.mdb",
        lambda: [database(), database(3)],
        lambda folder: open_source(SOURCES["lsun"], folder, ("test",)),
        cases=cases,
    ),
)
