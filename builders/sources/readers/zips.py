"""Lists the files of zips by number, and unpacks some. What a zip says of itself is checked, never trusted.

Tested by `tests/builders/sources/readers/test_zips.py` and `tests/builders/fetch/test_unzip.py`.
"""

from __future__ import annotations

import contextlib
import errno
import stat
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError, one_line
from builders.sources.base import LARGEST_IMAGE
from builders.sources.formats.tar_headers import File
from builders.storage.files import open_buffered
from unknown_detection.words import is_printable

_MOST_TIMES = 20
"""A zip of images is about as large as they are; annotations shrink to a tenth. More was made to fill a disk."""

_ALWAYS = 1 << 28
"""Bytes that any zip may unpack to."""

# What zipfile raises for damaged bytes: `NotImplementedError` is its error for a version, a flag or a compression
# method that it does not know, as a damaged header has, and `RuntimeError` that for an encrypted file.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
)

_DAMAGED_PLACES = (errno.EINVAL, errno.EEXIST, errno.ENOTDIR)
"""Errors of a place before the start, and of names that are twice, or a file's and a folder's."""


def members(path: Path) -> list[File]:
    """List the files of a zip in its order; `start` is each file's number among them.

    Raises:
        BuildError: the file is not a whole zip, or holds what no source's zip does.
    """
    with open_zip(path) as opened:
        files = _files(path, opened)
        return [File(file.filename, number, file.file_size) for number, file in enumerate(files)]


def unpack_zip(path: Path, rows: npt.NDArray[np.int64]) -> Iterator[list[bytes]]:
    """Yield some files of a zip, one at a time; see `builders.sources.unpack`."""
    with open_zip(path) as opened:
        files = _files(path, opened)
        if len(rows) and rows[-1] >= len(files):
            raise BuildError(
                f"{path} changed during the build: expected at least {int(rows[-1]) + 1:,} files, found "
                f"{len(files):,}. Run the same command again."
            )
        for row in rows.tolist():
            yield [opened.read(files[row])]  # which ends with an error where the CRC-32 differs


def read_file(path: Path, name: str) -> bytes | None:
    """Read a file of a zip by name; returns None if it has none."""
    with open_zip(path) as opened:
        file = next((file for file in _files(path, opened) if file.filename == name), None)
        return None if file is None else opened.read(file)


@contextlib.contextmanager
def open_zip(path: Path) -> Generator[zipfile.ZipFile]:
    """Open a zip, and turn what zipfile raises about it within the block into a `BuildError`."""
    try:
        with open_buffered(path) as file, zipfile.ZipFile(file) as opened:
            yield opened
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _DAMAGED_PLACES:
            raise
        raise BuildError(f"{path} is not a whole zip ({one_line(error, 120)}). Download it again.") from error


def refuse_unsafe(path: Path, files: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse files of a zip that are links, could leave their folder, or together would fill a disk."""
    for file in files:
        unsafe = {"", ".", ".."} & set(file.filename.split("/")) or "\\" in file.filename
        if unsafe or not is_printable(file.filename) or stat.S_ISLNK(file.external_attr >> 16):
            raise BuildError(
                f"{path} has a file named {one_line(file.filename, 120)}, which is a link or could leave "
                "its folder. Remove it and take the owner's file."
            )
    size, most = sum(file.file_size for file in files), max(_ALWAYS, _MOST_TIMES * path.stat().st_size)
    if size > most:
        raise BuildError(
            f"{path} would unpack to {size:,} bytes, far more than a zip of its size. Take the owner's file."
        )


def _files(path: Path, opened: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    # Not `is_dir`, which fails on an empty name (Python 3.11).
    files = [file for file in opened.infolist() if not file.filename.endswith("/")]
    refuse_unsafe(path, files)
    for file in files:
        if file.file_size > LARGEST_IMAGE:
            raise BuildError(
                f"{path} has a file named {one_line(file.filename, 120)} of {file.file_size:,} bytes, more "
                "than any image of a source. Take the owner's file."
            )
    return files
