"""Lists the files of tars: with byte offsets, to be read in place, or by number in a compressed tar.

`tarfile` takes about a minute for the 1.28 million members of ImageNet's training archive. Their headers are all
plain, so they are parsed here directly; an archive with any other header is left to `tarfile` as a whole. A compressed
tar must be read from its start, once to list its files and once to unpack some.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import tarfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.errors import BuildError
from builders.sources.base import Container, partition_table
from builders.sources.readers.folders import match_names, relative

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
_FILE_KINDS = (b"0", b"\0")
_FOLDER_KIND = b"5"
_NO_EXTENSION = 0
_READ = 1 << 16


@dataclass(frozen=True)
class Member:
    """A regular file in a tar: its name without folders, byte offset and size in the outermost file, and folder.

    In a compressed tar `offset` is the file's number among the regular files. `folder` is spelled as in the archive,
    with forward slashes and none at its end.
    """

    name: str
    offset: int
    size: int
    folder: str = ""


@dataclass(frozen=True)
class Published:
    """Size in bytes and MD5 of an archive, as its owners or other projects' loaders state them."""

    size: int
    md5: str = ""

    def difference(self, path: Path) -> str:
        """Describe a difference in size; empty if there is none. Nothing is hashed: the largest archive has 148 GB."""
        found = path.stat().st_size
        md5 = f", MD5 {self.md5}" if self.md5 else ""
        return "" if found == self.size else f"{path.name} has {found:,} bytes, the published one {self.size:,}{md5}"


@dataclass(frozen=True)
class MatchedMembers:
    """The members with matching names, sorted by name, as Arrow columns; and the names of the others."""

    names: pa.Array
    offsets: pa.Array
    sizes: pa.Array
    others: list[str]


def members(path: Path) -> list[Member]:
    """List the regular files of an uncompressed tar.

    Raises:
        BuildError: the file is not an uncompressed tar, is truncated, or has a sparse member.
    """
    with _open(path) as file:
        return _list(file, path, 0, path.stat().st_size)


def nested_members(path: Path) -> Iterator[tuple[str, list[Member]]]:
    """List a tar of tars: yields each inner tar's name without `.tar` and its members, with offsets in the outer tar.

    A member whose name does not end in `.tar` comes with its full name and no members.

    Raises:
        BuildError: as for `members`.
    """
    with _open(path) as file:
        for outer in sorted(_list(file, path, 0, path.stat().st_size), key=lambda member: member.name):
            stem, suffix = os.path.splitext(outer.name)  # noqa: PTH122  a name in an archive, not a path
            if suffix == ".tar":
                yield stem, _list(file, path, outer.offset, outer.offset + outer.size)
            else:
                yield outer.name, []


@dataclass(frozen=True)
class Archive:
    """A tar as found, compressed or not: its path, container and regular files."""

    path: Path
    how: Container
    members: list[Member]

    def table(
        self, root: Path, classes: pa.DictionaryArray, ids: Sequence[str], members: Sequence[Member]
    ) -> pa.Table:
        """Index some of the members, given their `class_id` column and source ids."""
        return partition_table(
            classes,
            pa.array(ids, pa.string()),
            pa.repeat(pa.scalar(relative(self.path, root), pa.string()), len(ids)),
            pa.array([member.offset for member in members], pa.int64()),
            pa.array([member.size for member in members], pa.int64()),
        )


def find_archive(title: str, home: Path, stem: str) -> Archive | None:
    """Look for `<stem>.tar`, which can be read in place, and then for `<stem>.tar.gz`.

    Args:
        title: the source's title.
        home: the folder to look in.
        stem: the archive's name without ending.

    Raises:
        BuildError: the archive cannot be read.
    """
    plain, packed = home / f"{stem}.tar", home / f"{stem}.tar.gz"
    if plain.is_file():
        return Archive(plain, "span", members(plain))
    return Archive(packed, "targz", compressed_members(title, packed)) if packed.is_file() else None


def compressed_members(title: str, path: Path) -> list[Member]:
    """List the regular files of a tar.gz, in the archive's order.

    Args:
        title: the source's title.
        path: the archive, which is read to its end.

    Raises:
        BuildError: the file is not a tar.gz, is truncated, or its checksum is wrong.
    """
    found: list[Member] = []
    with whole_archive(path, title), gzip.open(path) as content:
        with tarfile.open(fileobj=content, mode="r|", bufsize=_READ) as archive:
            for info in archive:
                if info.isreg():
                    folder, _, name = info.name.rpartition("/")
                    found.append(Member(name, len(found), info.size, folder))
        while content.read(_READ):  # tarfile stops at the tar's end; gzip's checksum comes after it
            pass
    return found


def unpack(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield some regular files of a tar.gz, one at a time; see `builders.sources.unpack`."""
    wanted = iter(rows.tolist())
    row = next(wanted, None)
    number = -1
    with whole_archive(path), tarfile.open(path, "r|gz", bufsize=_READ) as archive:
        for info in archive:
            if row is None:
                return
            number += info.isreg()
            if info.isreg() and number == row and (file := archive.extractfile(info)) is not None:
                yield [file.read()]
                row = next(wanted, None)
    if row is not None:
        raise BuildError(
            f"{path} changed during the build: expected at least {row + 1:,} files, found {number + 1:,}. Run the "
            "same command again."
        )


@contextlib.contextmanager
def whole_archive(path: Path, title: str = "") -> Generator[None]:
    """Turn errors while reading a compressed tar into a `BuildError`.

    Args:
        path: the archive.
        title: the source's title, if known.

    Raises:
        BuildError: `tarfile` or `gzip` cannot read the archive.
    """
    try:
        yield
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise BuildError(
            f"{title}{': ' if title else ''}{path} cannot be read as a tar.gz ({error}). Download it again."
        ) from error


def match_members(found: Sequence[Member], pattern: str) -> MatchedMembers:
    """Divide members by name, as `folders.match_names` does."""
    by_name = sorted(found, key=lambda member: member.name)
    names = match_names([member.name for member in by_name], pattern)
    if names.others:
        odd = set(names.others)
        by_name = [member for member in by_name if member.name not in odd]
    return MatchedMembers(
        names.images,
        pa.array([member.offset for member in by_name], pa.int64()),
        pa.array([member.size for member in by_name], pa.int64()),
        names.others,
    )


def _open(path: Path) -> IO[bytes]:
    file = path.open("rb", buffering=0)
    if hasattr(os, "posix_fadvise"):
        # Otherwise the system reads ahead at every header, and so reads most of 138 GB from a cold disk.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    return file


def _list(file: IO[bytes], path: Path, start: int, end: int) -> list[Member]:
    found = _plain_members(file, start, end)
    return _any_members(file, path, start, end) if found is None else found


def _plain_members(file: IO[bytes], start: int, end: int) -> list[Member] | None:
    """Parse the headers from `start` on; None if one is not a plain file's or folder's (POSIX ustar, GNU)."""
    found: list[Member] = []
    position = start
    while position < end:
        file.seek(position)
        header = file.read(_BLOCK)
        if len(header) < _BLOCK or header[0] == 0:
            return found if header == _ZEROS else None
        kind = header[156:157]
        # Byte 345 begins the prefix of long paths; in GNU archives it begins other extensions.
        if header[257:262] != b"ustar" or header[345] != _NO_EXTENSION:
            return None
        try:
            size = int(header[124:136].rstrip(b"\0 "), 8)
        except ValueError:  # sizes of 8 GB and more are not in octal
            return None
        data = position + _BLOCK
        if kind in _FILE_KINDS and data + size <= end:
            folder, _, name = os.fsdecode(header[:100].rstrip(b"\0")).rpartition("/")
            found.append(Member(name, data, size, folder))
        elif kind != _FOLDER_KIND:
            return None
        position = data + (size + _BLOCK - 1) // _BLOCK * _BLOCK
    return found


def _any_members(file: IO[bytes], path: Path, start: int, end: int) -> list[Member]:
    found: list[Member] = []
    file.seek(start)
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for info in archive:
                if info.offset_data + info.size > end or info.sparse is not None:
                    raise BuildError(
                        f"{info.name} at byte {info.offset_data:,} of {path} is cut short or in pieces. Download the "
                        "archive again."
                    )
                if info.isreg():
                    folder, _, name = info.name.rpartition("/")
                    found.append(Member(name, info.offset_data, info.size, folder))
    except tarfile.TarError as error:
        raise BuildError(
            f"{path} has no complete, uncompressed tar at byte {start:,} ({error}). Download the archive again."
        ) from error
    return found
