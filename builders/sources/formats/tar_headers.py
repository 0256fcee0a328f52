"""Walks the headers of a tar (POSIX.1-2017, `pax`; GNU tar's manual, "Basic Tar Format").

Nothing that a header says is believed: its check sum must be right, sizes must lie inside the archive, names have a
limit, and what comes after the end must be zeros. So a walk always goes forward and holds one header at a time.
`tarfile` checks less: it follows negative sizes backwards and reads a name of any length into memory.

Tested by `tests/builders/sources/readers/test_tars.py`.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

from builders.errors import one_line

BLOCK = 512
_ZEROS = bytes(BLOCK)

_FILES = frozenset((b"0", b"\0", b"7"))
_FOLDER = b"5"
_ODD = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a named pipe", b"S": "in pieces"}
_GNU_NAME = b"L"
_GNU_LINK = b"K"
_PAX = frozenset((b"x", b"X"))
_PAX_GLOBAL = b"g"

_CHECKSUM = slice(148, 156)

_LONGEST = 1 << 20
"""Bytes of a long name or of extended fields. Linux's paths have at most 4,096."""

_PADDING = 1 << 20
"""Zeros that may follow the end. GNU tar fills up to 10 KB unless told otherwise."""

_RECORD = re.compile(rb"([1-9][0-9]{0,6}) ([^=\n]+)=")


Archive = IO[bytes] | gzip.GzipFile


class TarError(ValueError):
    """A damaged tar; the message follows "it" and has no full stop."""


class File(NamedTuple):
    """A regular file in a tar: its path as the tar spells it, and where its bytes begin and how many they are."""

    name: str
    start: int
    size: int


def files(archive: Archive, start: int, end: int) -> Iterator[File]:
    """Yield the regular files of a tar that lies between two positions of an archive.

    The archive is read forward only, so that it may be compressed.

    Raises:
        TarError: the tar is damaged, is cut short, or has a member that is neither a file nor a folder.
    """
    position = start
    long_name = ""
    long_size: int | None = None
    while True:
        header = _read(archive, position, BLOCK, end)
        if header == _ZEROS:
            _refuse_trailing_bytes(archive, position, end)
            return
        _check_sum(header, position)
        size, kind, data = _number(header[124:136], position), header[156:157], position + BLOCK
        if kind in _FILES:
            name = long_name or _name(header)
            size = size if long_size is None else long_size
            if data + size > end:
                claim = f"{one_line(name)} at byte {data:,} has {size:,} bytes"
                raise TarError(f"is cut short: {claim}, more than are left")
            if not name.endswith("/"):  # how archives of the first format mark a folder
                yield File(name, data, size)
        elif kind in _ODD:
            name = long_name or _name(header)
            raise TarError(f"has {one_line(name)} at byte {position:,}, which is {_ODD[kind]} and not a whole file")
        elif kind == _FOLDER:
            size = 0
        elif kind in _PAX or kind in (_GNU_NAME, _GNU_LINK, _PAX_GLOBAL):
            name, next_size = _extension(kind, _payload(archive, data, size, end), position)
            long_name, long_size = name or long_name, long_size if next_size is None else next_size
            position = data + -(-size // BLOCK) * BLOCK
            continue
        position = data + -(-size // BLOCK) * BLOCK
        long_name, long_size = "", None


def _read(archive: Archive, position: int, size: int, end: int) -> bytes:
    if position + size <= end:
        archive.seek(position)
        data = archive.read(size)
        if len(data) == size:
            return data
    raise TarError(f"is cut short: it has neither an end mark nor {size:,} more bytes at byte {position:,}")


def _check_sum(header: bytes, position: int) -> None:
    """Compare the sum of a header's bytes with its check sum, whose field counts as eight spaces."""
    # The low half of Adler-32 is one more than the sum of the bytes, modulo 65,521, which 256 bytes cannot reach.
    total = (zlib.adler32(header[:256]) & 0xFFFF) + (zlib.adler32(header[256:]) & 0xFFFF) - 2
    field = header[_CHECKSUM]
    if _number(field, position) != total - sum(field) + 8 * ord(" "):
        raise TarError(f"has no header at byte {position:,}: the check sum there is wrong")


def _number(field: bytes, position: int) -> int:
    """Read a number: octal digits, or two's complement where the first bit is set (GNU)."""
    if field[0] & 0x80:
        if field[0] == 0x80:
            return int.from_bytes(field[1:], "big")
    else:
        digits = field.partition(b"\0")[0].strip(b" ")
        if not digits:
            return 0
        if digits.isdigit() and b"8" not in digits and b"9" not in digits:
            return int(digits, 8)
    raise TarError(
        f"has no header at byte {position:,}: a number there is {one_line(field.decode('latin-1').rstrip(chr(0)))}"
    )


def _name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    # GNU archives have other fields where POSIX has the first part of a long path.
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return os.fsdecode(prefix + b"/" + name if prefix else name)


def _payload(archive: Archive, data: int, size: int, end: int) -> bytes:
    if size > _LONGEST:
        raise TarError(f"has a name or other fields of {size:,} bytes at byte {data:,}")
    return _read(archive, data, size, end)


def _extension(kind: bytes, payload: bytes, position: int) -> tuple[str, int | None]:
    """Return the name and the size of the next member, each only where the extension gives it."""
    if kind == _GNU_NAME:
        return os.fsdecode(payload.partition(b"\0")[0]), None
    if kind == _GNU_LINK:
        return "", None
    fields = _pax_fields(payload, position)
    if any(field.startswith(b"GNU.sparse.") for field in fields):
        raise TarError(f"has a member in pieces at byte {position:,}")
    if kind == _PAX_GLOBAL:
        if b"path" in fields or b"size" in fields:
            raise TarError(f"gives one name or size to all its members at byte {position:,}")
        return "", None
    size = fields.get(b"size")
    if size is not None and not (size.isdigit() and len(size) < 20):
        raise TarError(f"has a size of {one_line(size.decode('latin-1'))} at byte {position:,}")
    return os.fsdecode(fields.get(b"path", b"")), None if size is None else int(size)


def _pax_fields(payload: bytes, position: int) -> dict[bytes, bytes]:
    """Read records of the form "length key=value", where the length is that of the whole record."""
    fields = {}
    offset = 0
    while offset < len(payload) and payload[offset]:
        record = _RECORD.match(payload, offset)
        stop = offset + int(record[1]) if record else 0
        if record is None or not record.end() < stop <= len(payload) or payload[stop - 1] != ord("\n"):
            raise TarError(f"has fields at byte {position:,} that are no list of names and values")
        fields[record[2]] = payload[record.end() : stop - 1]
        offset = stop
    return fields


def _refuse_trailing_bytes(archive: Archive, position: int, end: int) -> None:
    archive.seek(position)
    trailing = archive.read(min(_PADDING + 1, end - position))
    if len(trailing) > _PADDING or trailing.count(0) != len(trailing):
        raise TarError(f"goes on after its end mark at byte {position:,}: a part of it may be lost")
