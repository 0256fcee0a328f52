"""Opens and writes files, on this machine or in a store.

Only regular files are opened: a named pipe has no end, and a device may be anything. A file that is written is
complete or does not exist, also after a power cut (`unknown_detection.durable`). Files of this machine are opened and
written here; a path in a store does both itself (`builders.storage.object_path`).

Tested by `tests/builders/storage/test_files_written.py` and `test_files_regular.py`.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from builders.errors import BuildError, one_line
from builders.storage.object_path import ObjectPath
from unknown_detection.durable import replacing


def atomic_path(path: Path, *, durable: bool = True) -> AbstractContextManager[Path]:
    """Yield a temporary path on this machine; its file becomes `path` if the block succeeds, else it is removed.

    The temporary path is beside `path`, or for a file in a store in the folder for temporary files. If it is not
    `durable`, the caller flushes the file and its folder. A file in a store is durable in any case.
    """
    if isinstance(path, ObjectPath):
        return path.atomic_path()
    return replacing(path, durable=durable)


def replace_unless_changed(path: Path, data: bytes, is_read: Callable[[bytes | None], bool]) -> None:
    """Write atomically a file that several runs may change.

    A lock keeps other runs out of a folder of this machine. A store has none: there the file is written only if it is
    what `is_read` says was read (its bytes, None for no file), and else raises `ChangedMeanwhileError`.
    """
    if isinstance(path, ObjectPath):
        path.replace_unless_changed(data, is_read)
        return
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, with Unix newlines."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}

# Otherwise opening a pipe waits until somebody writes to it.
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


_AT_ONCE = 1 << 26
"""Bytes of a file that is read in one call at most (ours)."""


def open_regular(path: str | os.PathLike[str]) -> io.FileIO:
    """Open a regular file, or a link to one, for unbuffered reading; anything else is a `BuildError`."""
    if isinstance(path, ObjectPath):
        return path.open_regular()
    return io.FileIO(os.fspath(path), opener=_opener)


def open_buffered(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a regular file as `open_regular` does, but buffered."""
    return io.BufferedReader(open_regular(path))


def open_whole(path: Path) -> io.FileIO | io.BytesIO:
    """Open a regular file for reading in any order; a file in a store is read into memory first."""
    return io.BytesIO(read_regular(path)) if isinstance(path, ObjectPath) else open_regular(path)


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Read a regular file, opened as by `open_regular`; raises `OSError` if it is larger than `most`."""
    data = None if isinstance(path, ObjectPath) else _read_at_once(os.fspath(path))
    if data is None:
        with open_buffered(path) as file:
            data = file.read(-1 if most is None else most + 1)
    if most is not None and len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return data


def _read_at_once(path: str) -> bytes | None:
    """Read a file of usual size in one call, a fifth of the time of a buffered one; None if it has no such."""
    descriptor = _opener(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        size = os.fstat(descriptor).st_size
        data = os.read(descriptor, size + 1) if size <= _AT_ONCE else b""
    finally:
        os.close(descriptor)
    return data if len(data) == size else None  # a byte more shows that it grew, and /proc has files of no size


def copy_here(path: Path, target: Path) -> None:
    """Copy a file, from this machine or a store, to this machine; raises as `open_regular`."""
    with open_regular(path) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def byte_count(file: IO[bytes] | io.RawIOBase) -> int:
    """Return the number of bytes of an open file, and set it to its start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, which need not exist yet."""
    absolute = folder.absolute()
    return shutil.disk_usage(next(path for path in (absolute, *absolute.parents) if path.exists())).free


def require_space(folder: Path, needed: int, doing: str, advice: str) -> None:
    """Raise `BuildError` if the disk of a folder has too few bytes left; `doing` says what needs them."""
    if needed > (free := free_bytes(folder)):
        raise BuildError(f"{doing} {needed:,} bytes, and the disk of {folder} has {free:,} left. {advice}")


def require_room(out: Path, sizes: Sequence[int]) -> None:
    """Raise `BuildError` if there is no space for files of these sizes; a store's files are first written here."""
    if isinstance(out, ObjectPath):
        folder, needed = Path(tempfile.gettempdir()), max(sizes, default=0)
        advice = (
            "Files are written there before they are sent: set TMPDIR to a folder with space for one of each worker, "
            "and run the same command again."
        )
    else:
        folder, needed = out, sum(sizes)
        advice = "Free some, or give another --out, and run the same command again."
    require_space(folder, needed, "The build needs", advice)


def refuse_irregular(path: str | os.PathLike[str], mode: int) -> None:
    """Raise `BuildError` unless a mode, as `os.stat` gives it, is a regular file's."""
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise BuildError(f"{one_line(path)} is {kind}, not a regular file. Remove it, or put the file in its place.")


def require_regular(path: Path) -> None:
    """Raise `BuildError` if a path that a library is about to open is not a regular file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise BuildError(f"Cannot read {one_line(path)}: {error.strerror}. Restore it and run again.") from error
    refuse_irregular(path, mode)


def _opener(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | _FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:  # what opening a socket gives
            refuse_irregular(path, os.stat(path).st_mode)  # noqa: PTH116  a Path costs more than the call
        raise
    try:
        refuse_irregular(path, os.fstat(descriptor).st_mode)
    except BuildError:
        os.close(descriptor)
        raise
    return descriptor
