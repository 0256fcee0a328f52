"""Tars, tars of tars, compressed tars, and zips."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from builders.fetch import unzip
from builders.sources.readers import tars, zips
from tests.builders.trees import add
from tests.fuzz.bombs import gzip_bomb
from tests.fuzz.target import Target

_BLOCK = 512
FILES = {"a.jpg": b"a" * 700, "empty.jpg": b"", "folder/b.jpg": b"b" * 512, "c.jpg": b"c"}
_FORMS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


def packed(files: Mapping[str, bytes] = FILES, form: int = tarfile.USTAR_FORMAT) -> bytes:
    """A tar of some files, without the zeros that fill it to 10 KB."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, content in files.items():
            add(archive, name, content)
        end = archive.offset + 2 * _BLOCK
    return buffer.getvalue()[:end]


def with_checksums(data: bytes) -> bytes:
    """Make the check sum right of every block that looks like a header (POSIX ustar: a sum of the header's bytes)."""
    changed = bytearray(data)
    for start in range(0, len(data) - _BLOCK + 1, _BLOCK):
        if changed[start + 257 : start + 262] == b"ustar":
            header = changed[start : start + _BLOCK]
            header[148:156] = b" " * 8
            changed[start + 148 : start + 156] = b"%06o\0 " % sum(header)
    return bytes(changed)


def plain() -> list[bytes]:
    """Tars in all three formats, short names and long ones."""
    long = FILES | {"d/" * 80 + "long.jpg": b"long"}
    return [packed(files, form) for files in (FILES, long) for form in _FORMS]


def nested() -> list[bytes]:
    """Tars of tars."""
    inner = [packed({"n1/x_1.jpg": b"1" * 90, "x_2.jpg": b"2"}, form) for form in _FORMS]
    outer = {f"n{number}.tar": data for number, data in enumerate(inner)} | {"readme.txt": b"hello"}
    return [packed(outer, form) for form in _FORMS]


def member(name: bytes, size: bytes | int, content: bytes = b"", kind: bytes = b"0", check: bytes = b"") -> bytes:
    """A header with any fields, and its content in whole blocks. A number as size is written in octal."""
    header = bytearray(_BLOCK)
    header[: len(name)] = name[:100]
    header[100:108] = b"0000644\0"
    field = size if isinstance(size, bytes) else b"%011o\0" % size
    header[124 : 124 + len(field)] = field
    header[156:157] = kind
    header[257:265] = b"ustar\x0000"
    complete = bytearray(with_checksums(bytes(header)))
    complete[148 : 148 + len(check)] = check
    return bytes(complete) + content + bytes(-len(content) % _BLOCK)


def fields(**values: object) -> bytes:
    """The contents of a pax header."""
    records = b""
    for key, value in values.items():
        text = f" {key.replace('__', '.')}={value}\n".encode()
        length = len(text)
        while length != len(text) + len(str(length)):
            length = len(text) + len(str(length))
        records += str(length).encode() + text
    return records


END = bytes(2 * _BLOCK)
FIRST = member(b"a.jpg", 3, b"abc")
_LOOP = member(b"loop.jpg", b"-0000001000\0")


def extended(content: bytes, kind: bytes = b"x") -> bytes:
    """A pax header."""
    return member(b"extended", len(content), content, kind)


CASES = {
    "negative size": FIRST + _LOOP + END,
    "negative size with other members before it": FIRST * 40 + member(b"l.jpg", b"-%010o\0" % (40 * 1024)) + END,
    "negative size in base 256": FIRST + member(b"x.jpg", b"\xff" * 11 + b"\x00") + END,
    "huge size in base 256": FIRST + member(b"x.jpg", b"\x80" + b"\x7f" * 11) + END,
    "wrong check sum": FIRST + member(b"x.jpg", 0, check=b"000001\0 ") + END,
    "no check sum": FIRST + member(b"x.jpg", 0, check=b" " * 8) + END,
    "one changed bit in a name": FIRST.replace(b"a.jpg", b"c.jpg") + END,
    "larger than the archive": FIRST + member(b"x.jpg", 5000, b"x" * 5000)[:-2048] + END,
    "size with an underscore": FIRST + member(b"x.jpg", b"0000_000001\0") + END,
    "size with a prefix": FIRST + member(b"x.jpg", b"0o000000001\0") + END,
    "size with a nine": FIRST + member(b"x.jpg", b"00000000009\0") + END,
    "zeros in the middle": FIRST + END + FIRST + END,
    "other bytes after the end": FIRST + END + b"x" * _BLOCK,
    "many zeros after the end": FIRST + END + bytes(2 << 20),
    "no end": FIRST,
    "half a header": FIRST + FIRST[:100],
    "hard link": FIRST + member(b"b.jpg", 0, kind=b"1") + END,
    "symbolic link": FIRST + member(b"b.jpg", 0, kind=b"2") + END,
    "character device": FIRST + member(b"b.jpg", 0, kind=b"3") + END,
    "block device": FIRST + member(b"b.jpg", 0, kind=b"4") + END,
    "named pipe": FIRST + member(b"b.jpg", 0, kind=b"6") + END,
    "sparse, GNU": FIRST + member(b"b.jpg", 0, kind=b"S") + END,
    "sparse, pax": extended(fields(GNU__sparse__major=1, GNU__sparse__realsize=1 << 40)) + FIRST + END,
    "pax size below zero": extended(fields(size=-512)) + FIRST + END,
    "pax size above the archive": extended(fields(size=1 << 60)) + FIRST + END,
    "pax size of 4000 digits": extended(fields(size="9" * 4000)) + FIRST + END,
    "pax of two gigabytes": member(b"extended", 2 << 30, kind=b"x") + END,
    "pax records without end": extended(b"3 a" * 9) + FIRST + END,
    "pax record of no length": extended(b"0 a=b\n") + FIRST + END,
    "pax record of 4000 digits": extended(b"9" * 4000 + b" a=b\n") + FIRST + END,
    "global size": extended(fields(size=5), b"g") + FIRST + END,
    "long name of two gigabytes": member(b"././@LongLink", 2 << 30, kind=b"L") + FIRST + END,
    "long name without a member": member(b"././@LongLink", 5, b"name\0", kind=b"L") + END,
    "a thousand long names": member(b"././@LongLink", 5, b"name\0", kind=b"L") * 1000 + FIRST + END,
    "name with control characters": FIRST + member(b"\x1b[2J\n.jpg", 9999) + END,
    "html": b"<html>not found</html>" * 99,
    "nothing": b"",
    "absolute name": member(b"/etc/unknown-detection.jpg", 3, b"abc") + END,
    "name that goes up": member(b"../../unknown-detection.jpg", 3, b"abc") + END,
}


def packed_cases() -> dict[str, bytes]:
    """The cases compressed, and those of compressed archives alone."""
    images = FIRST + member(b"b.jpg", 9000, np.random.default_rng(0).bytes(9000)) + END
    return {name: gzip.compress(data, 1) for name, data in CASES.items()} | {
        "bomb": gzip_bomb(member(b"x.jpg", 300 << 20), 300, END),
        "bomb after the end": gzip_bomb(FIRST, 300),
        "cut in two": gzip.compress(images)[:5000],
        "other bytes at the end": gzip.compress(images) + b"x" * 100,
        "in a hundred pieces": b"".join(gzip.compress(images[at : at + 100]) for at in range(0, len(images), 100)),
    }


def unpacked(path: Path) -> object:
    """List a tar.gz, and unpack every second image of it."""
    members = tars.compressed_members(path)
    return [bytes(image) for batch in tars.unpack_targz(path, np.arange(0, len(members), 2)) for image in batch]


def read_inner(folder: Path) -> object:
    """All inner tars."""
    return list(tars.nested_members(folder / "x.tar"))


def zipped() -> list[bytes]:
    """Zips, packed and not."""
    archives = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, content in FILES.items():
                archive.writestr(f"set/{name}", content)
            archive.writestr("other/x", b"x")
        archives.append(buffer.getvalue())
    return archives


def unzipped(path: Path) -> object:
    """The names and bytes of the files of a folder in a zip."""
    files: dict[str, _KeptBytes] = {}
    count = unzip.copy_members(path, "set", lambda name: files.setdefault(name, _KeptBytes()))
    return count, {name: buffer.content for name, buffer in files.items()}


def by_number(path: Path) -> object:
    """List a zip, and unpack every second image of it."""
    members = zips.members(path)
    images = zips.unpack_zip(path, np.arange(0, len(members), 2))
    return members, [image for batch in images for image in batch], zips.read_file(path, "other/x")


class _KeptBytes(io.BytesIO):
    """Bytes that are still there when they are closed."""

    content = b""

    def close(self) -> None:
        self.content = self.getvalue()
        super().close()


TARGETS = (
    Target("zip", "x.zip", zipped, lambda folder: unzipped(folder / "x.zip")),
    Target("zip-by-number", "x.zip", zipped, lambda folder: by_number(folder / "x.zip")),
    Target(
        "tar",
        "x.tar",
        plain,
        lambda folder: tars.members(folder / "x.tar"),
        cases=lambda: CASES,
        repair=with_checksums,
    ),
    Target(
        "nested-tar",
        "x.tar",
        nested,
        read_inner,
        cases=lambda: {name: packed({"n.tar": data}) for name, data in CASES.items()},
        repair=with_checksums,
    ),
    Target(
        "tar.gz",
        "x.tar.gz",
        lambda: [gzip.compress(data, 1) for data in plain()],
        lambda folder: unpacked(folder / "x.tar.gz"),
        cases=packed_cases,
    ),
    Target(
        "tar-in-gz",
        "x.tar",
        plain,
        lambda folder: unpacked(folder / "x.tar.gz"),
        repair=with_checksums,
        place=lambda folder, data: (folder / "x.tar.gz").write_bytes(gzip.compress(data, 1)),
    ),
)
