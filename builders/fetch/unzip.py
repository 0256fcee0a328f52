"""Unpacks the part of a zip that readers need. What the zip says of itself is checked, never trusted."""

from __future__ import annotations

import errno
import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path

from builders.errors import BuildError, one_line
from builders.storage.files import TEMPORARY, open_buffered
from builders.storage.paths import inside
from unknown_detection.durable import finish

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


_OF_THE_ZIP = (errno.EINVAL, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Errors of a place before the file's start, and of names that are twice, a file's and a folder's, or too long."""


def unzip(archive: Path, selected: str, into: Path) -> None:
    """Unpack a file or a folder of a zip to the same path below a folder, all of it or nothing.

    What is no whole zip, does not hold it, or holds what cannot be unpacked safely is a `BuildError`.
    """
    target, advice = inside(into, selected), "Remove it and download it again."
    temporary = target.with_name(f".{target.name}{TEMPORARY}")
    shutil.rmtree(temporary, ignore_errors=True)  # of a killed run
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
                place = inside(temporary, member.filename)
                place.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(member) as source, place.open("xb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)  # which ends with an error where the CRC-32 differs
        finish(temporary / selected, target)
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _OF_THE_ZIP:
            raise
        raise BuildError(f"{archive} is not a whole zip ({one_line(error, 120)}). {advice}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _refuse(archive: Path, members: list[zipfile.ZipInfo]) -> None:
    for member in members:
        unsafe = {"", ".", ".."} & set(member.filename.split("/")) or "\\" in member.filename
        if unsafe or not member.filename.isprintable() or stat.S_ISLNK(member.external_attr >> 16):
            raise BuildError(
                f"{archive} has a file named {one_line(ascii(member.filename), 120)}, which is a link or could leave "
                "its folder. Remove it and take the owner's file."
            )
    size, most = sum(member.file_size for member in members), max(_ALWAYS, _MOST_TIMES * archive.stat().st_size)
    if size > most:
        raise BuildError(f"{archive} would unpack to {size:,} bytes, far more than it has. Take the owner's file.")
