"""Unpacks the part of a zip that readers need, trusting nothing that the zip says of itself."""

from __future__ import annotations

import errno
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from builders.errors import BuildError, one_line
from builders.storage.files import TEMPORARY, open_buffered
from builders.storage.paths import inside
from unknown_detection.durable import finish
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


def unzip(archive: Path, selected: str, into: Path) -> int:
    """Unpack a file or folder of a zip to the same path below `into`, entirely or not; returns the number of files."""
    target = inside(into, selected)
    temporary = target.with_name(f".{target.name}{TEMPORARY}")
    shutil.rmtree(temporary, ignore_errors=True)  # of a killed run

    def create(name: str) -> IO[bytes]:
        place = inside(temporary, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place.open("xb")

    try:
        count = copy_members(archive, selected, create)
        finish(temporary / selected, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count


def copy_members(archive: Path, selected: str, create: Callable[[str], IO[bytes]]) -> int:
    """Copy a file or a folder's files from a zip into files that `create` opens by path; returns their number.

    What is no whole zip, does not hold `selected`, or holds what cannot be unpacked safely is a `BuildError`.
    """
    advice = "Remove it and download it again."
    try:
        with open_buffered(archive) as file, zipfile.ZipFile(file) as opened:
            members = [
                member
                for member in opened.infolist()
                if member.filename == selected or (member.filename.startswith(f"{selected}/") and not member.is_dir())
            ]
            if not members:
                raise BuildError(f"{archive} does not hold {selected}. {advice}")
            _refuse(archive, members)
            for member in members:
                with opened.open(member) as source, create(member.filename) as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)  # which ends with an error where the CRC-32 differs
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EEXIST, errno.ENOTDIR):
            raise  # others than of a place before the start, and of names that are twice, or a file's and a folder's
        raise BuildError(f"{archive} is not a whole zip ({one_line(error, 120)}). {advice}") from error
    return len(members)


def _refuse(archive: Path, members: list[zipfile.ZipInfo]) -> None:
    for member in members:
        unsafe = {"", ".", ".."} & set(member.filename.split("/")) or "\\" in member.filename
        if unsafe or not is_printable(member.filename) or stat.S_ISLNK(member.external_attr >> 16):
            raise BuildError(
                f"{archive} has a file named {one_line(ascii(member.filename), 120)}, which is a link or could leave "
                "its folder. Remove it and take the owner's file."
            )
    size, most = sum(member.file_size for member in members), max(_ALWAYS, _MOST_TIMES * archive.stat().st_size)
    if size > most:
        raise BuildError(
            f"{archive} would unpack to {size:,} bytes, far more than a zip of its size. Take the owner's file."
        )
