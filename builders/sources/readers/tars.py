"""Lists the files of tars: with byte offsets to read them in place, or by number in a compressed tar.

A compressed tar must be read from its start, once to list its files and once to unpack some.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Collection, Generator, Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError, one_line
from builders.sources.base import LARGEST_IMAGE
from builders.sources.formats import tar_headers
from builders.sources.formats.tar_headers import File, TarError
from builders.storage.files import byte_count, open_buffered, open_regular

# A compressed archive of images is about as large as they are. One that unpacks to far more was made to fill memory or
# time: zeros shrink to a thousandth.
_MOST_TIMES = 20
_ALWAYS = 1 << 28
"""Bytes that any archive may unpack to."""


def is_plain(path: Path) -> bool:
    """Whether a file is an uncompressed tar, judged by the mark in its first header and not by its name."""
    with _whole_archive(path), open_buffered(path) as file:
        return file.read(tar_headers.BLOCK)[257:262] == b"ustar"


def members(path: Path, keep: Callable[[str], bool] = lambda name: True) -> list[File]:
    """List the regular files of an uncompressed tar; with `keep`, only those whose names it accepts.

    Raises:
        BuildError: the file is not an uncompressed tar, is damaged or cut short, or has a link, a device, a member in
            pieces, or a file that is larger than any image.
    """
    with _open(path) as file:
        return _list(file, path, 0, byte_count(file), keep=keep)


def nested_members(path: Path, names: Collection[str] | None = None) -> Iterator[tuple[str, list[File]]]:
    """Yield each inner tar of a tar of tars by name, with its files, whose offsets are in the outer tar.

    A file whose name does not end in `.tar` comes without files. With `names` only inner tars of these names come, and
    no other is looked into.
    """
    with _open(path) as file:
        inner_files = [
            (entry.name.rpartition("/")[2], entry)
            for entry in _list(file, path, 0, byte_count(file), largest=sys.maxsize)
        ]
        for name, entry in sorted(inner_files):
            if names is None or name in names:
                end = entry.start + entry.size
                yield name, _list(file, path, entry.start, end, name) if name.endswith(".tar") else []


def compressed_members(path: Path) -> list[File]:
    """List the regular files of a tar.gz in the archive's order, numbered from 0 by `start`.

    Raises:
        BuildError: the file is not a tar.gz, is truncated, or its checksum is wrong.
    """
    with _whole_archive(path):
        entries = [file for _, file in _unpacked(path)]
        return [_no_larger(file, LARGEST_IMAGE)._replace(start=number) for number, file in enumerate(entries)]


def unpack_targz(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield some regular files of a tar.gz, one at a time; see `builders.sources.unpack`."""
    requested = iter(rows.tolist())
    row = next(requested, None)
    number = -1
    for number, (archive, file) in enumerate(_unpacked(path)):
        if row is None:
            return
        if number == row:
            yield [_content(archive, file, path)]
            row = next(requested, None)
    if row is not None:
        raise BuildError(
            f"{path} changed during the build: expected at least {row + 1:,} files, found {number + 1:,}. Run the "
            "same command again."
        )


def read_files(path: Path, names: Collection[PurePosixPath]) -> dict[PurePosixPath, bytes]:
    """Read some regular files of a tar.gz by name, in one pass up to the last; files that it lacks are left out."""
    contents: dict[PurePosixPath, bytes] = {}
    for archive, file in _unpacked(path):
        name = PurePosixPath(file.name)
        if name in names:
            contents[name] = _content(archive, file, path)
        if len(contents) == len(names):
            break
    return contents


def _unpacked(path: Path) -> Iterator[tuple[tar_headers.Archive, File]]:
    """Yield the regular files of a tar.gz with the archive to read them from."""
    with _whole_archive(path), open_buffered(path) as packed, gzip.GzipFile(fileobj=packed) as archive:
        end = max(_ALWAYS, _MOST_TIMES * byte_count(packed))
        for file in tar_headers.files(archive, 0, end):
            yield archive, file


def _content(archive: tar_headers.Archive, file: File, path: Path) -> bytes:
    with _whole_archive(path):
        archive.seek(_no_larger(file, LARGEST_IMAGE).start)
        content = archive.read(file.size)
        if len(content) != file.size:
            raise EOFError(f"{one_line(file.name)} is cut short")
        return content


@contextlib.contextmanager
def _whole_archive(path: Path) -> Generator[None]:
    """Turn errors while reading a compressed tar into a `BuildError`."""
    try:
        yield
    except (TarError, EOFError, OSError, zlib.error) as error:
        reason = f"it {error}" if isinstance(error, TarError) else error
        raise BuildError(f"{path} cannot be read as a tar.gz ({reason}). Download it again.") from error


def _open(path: Path) -> io.FileIO:
    file = open_regular(path)
    if hasattr(os, "posix_fadvise"):
        # Otherwise the system reads ahead at every header, and so reads most of 138 GB from a cold disk.
        with contextlib.suppress(io.UnsupportedOperation):  # what is in a store has no descriptor
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    return file


def _list(
    file: io.FileIO,
    path: Path,
    start: int,
    end: int,
    inside: str = "",
    largest: int = LARGEST_IMAGE,
    keep: Callable[[str], bool] = lambda name: True,
) -> list[File]:
    try:
        return [_no_larger(entry, largest) for entry in tar_headers.files(file, start, end) if keep(entry.name)]
    except TarError as error:
        place = f"{one_line(inside)} in {path}" if inside else f"{path}"
        raise BuildError(
            f"{place} is not a whole, uncompressed tar: it {error}. Download the archive again."
        ) from error


def _no_larger(file: File, largest: int) -> File:
    if file.size > largest:
        raise TarError(f"has {one_line(file.name)} of {file.size:,} bytes, more than any image of a source")
    return file
