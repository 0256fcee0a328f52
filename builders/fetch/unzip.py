"""Unpacks the part of a zip that readers need. What the zip says of itself is checked, never trusted."""

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

_MOST_TIMES = 20
"""A zip of images is about as large as they are; annotations shrink to a tenth. More was made to fill a disk."""

_ALWAYS = 1 << 28
"""Bytes that any zip may unpack to."""

# What zipfile raises for damaged bytes: `NotImplementedError` is its error for a version, a flag or a compression
# method that it does not know, as a damaged header has.
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

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unzip(archive: Path, selected: str, into: Path) -> int:
    """Unpack a file or a folder of a zip to the same path below a folder, all of it or nothing.

    Args:
        archive: the zip.
        selected: the path of the file or folder inside, with forward slashes.
        into: the folder.

    Returns:
        The number of files.

    Raises:
        BuildError: as `copy_members`.
        OSError: the disk is full or read-only.
    """
    target = inside(into, selected)
    temporary = target.with_name(f".{target.name}{TEMPORARY}")
    _remove(temporary)  # of a killed run

    def create(inner: str) -> IO[bytes]:
        place = inside(temporary, inner) if inner else temporary
        place.parent.mkdir(parents=True, exist_ok=True)
        return place.open("xb")

    try:
        count = copy_members(archive, selected, create)
        finish(temporary, target)
    finally:
        _remove(temporary)
    return count


def copy_members(archive: Path, selected: str, create: Callable[[str], IO[bytes]]) -> int:
    """Copy a file or the files of a folder of a zip to files that `create` opens.

    Args:
        archive: the zip.
        selected: the path of the file or folder inside, with forward slashes.
        create: opens the copy of a file, given its path below `selected`; an empty one for `selected` itself.

    Returns:
        The number of files.

    Raises:
        BuildError: the file is no whole zip, does not hold `selected`, or holds what cannot be unpacked safely.
    """
    advice = "Remove it and download it again."
    try:
        with open_buffered(archive) as file, zipfile.ZipFile(file) as opened:
            members = [member for member in opened.infolist() if _is_below(member.filename, selected)]
            if not members:
                raise BuildError(f"{archive} does not hold {selected}. {advice}")
            _refuse(archive, members)
            for member in members:
                with opened.open(member) as source, create(member.filename[len(selected) :].lstrip("/")) as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)  # which ends with an error where the CRC-32 differs
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which a place before the start gives
            raise
        raise BuildError(f"{archive} is not a whole zip ({one_line(error, 120)}). {advice}") from error
    return len(members)


def _is_below(name: str, selected: str) -> bool:
    """Whether a file of a zip is the selected file or in the selected folder; names of folders end with a slash."""
    return name == selected or (name.startswith(f"{selected}/") and not name.endswith("/"))


def _refuse(archive: Path, members: list[zipfile.ZipInfo]) -> None:
    names = [member.filename for member in members]
    for member in members:
        parts = member.filename.split("/")
        kind = stat.S_IFMT(member.external_attr >> 16)
        if {"", ".", ".."} & set(parts) or not member.filename.isprintable() or "\\" in member.filename:
            raise BuildError(
                f"{archive} has a file named {one_line(ascii(member.filename), 120)}, which could leave its folder. "
                "Remove it and take the owner's file."
            )
        if kind not in (0, stat.S_IFREG) or member.compress_type not in _METHODS or member.flag_bits & 1:
            raise BuildError(
                f"{archive} has {member.filename} as a link, encrypted or in an unknown compression. Remove it and "
                "take the owner's file."
            )
    if len(set(names)) != len(names):
        raise BuildError(f"{archive} has a file twice. Remove it and take the owner's file.")
    size, most = sum(member.file_size for member in members), max(_ALWAYS, _MOST_TIMES * archive.stat().st_size)
    if size > most:
        raise BuildError(f"{archive} would unpack to {size:,} bytes, far more than it has. Take the owner's file.")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
