"""Makes files durable: a file with its final name is on the disk, also after a power cut.

A kill takes what a process holds in its memory; a power cut takes what the system holds in its own, too. POSIX
promises nothing of bytes before `fsync` of their file, nor of a new name before `fsync` of its folder, and not even
that the name comes after the bytes. So a file is flushed, renamed, and its folder flushed, before anything is written
that says that the file is finished.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NO_SYNC = "UNKNOWN_DETECTION_NO_SYNC"
"""Environment variable: 1 skips all flushing. `unflushed` sets it, since processes that are started have to know."""

TEMPORARY = ".tmp"
"""Suffix of every temporary file."""

_THREADS = 32
"""Files that are flushed at a time. A journal commits waiting files together: on ext4 12,661 small files took 37 s one
after the other, 1.5 s by 8 and 1.0 s by 32 at a time."""

_MACHINE = secrets.randbelow(10**9)
"""Separates processes of equal numbers on machines, or in containers, that share a folder."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writing alone, by which the system names no file."""

_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP)
"""Errors of `fsync` of a folder on file systems without it, such as some of FUSE and of networks."""


@contextlib.contextmanager
def unflushed() -> Iterator[None]:
    """Skip all flushing inside the block, in this process and in those that it starts."""
    before = os.environ.get(NO_SYNC)
    os.environ[NO_SYNC] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[NO_SYNC]
        else:
            os.environ[NO_SYNC] = before


def flush(path: Path) -> None:
    """Return once a file's bytes, or the names in a folder, are on the disk; `OSError` if that is full or failing."""
    if os.environ.get(NO_SYNC) == "1":
        return
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH or not path.is_dir():
            raise
    finally:
        os.close(opened)


def flush_all(paths: Iterable[Path]) -> None:
    """Return once files' bytes, or the names in folders, are on the disk; several are flushed at a time."""
    paths = list(paths)
    if len(paths) == 1:  # a thread would take as long as writing a small file
        flush(paths[0])
        return
    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(flush, paths):
            pass


def flush_tree(path: Path) -> None:
    """Flush a file, or a folder with all that is below it, but not the name of `path` itself."""
    flush_all(entry for entry in (path, *sorted(path.rglob("*"))) if not entry.is_symlink())


def make_folder(path: Path) -> None:
    """Create a folder with its parents, durably, unless it exists."""
    if path.is_dir():
        return
    if not path.parent.exists():
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    flush(path.parent)


def finish(temporary: Path, path: Path) -> None:
    """Give a finished file or folder its final name in the same file system, and return once all of it is on the disk.

    A failure before the rename leaves `path` as it was.
    """
    if temporary.is_dir() or temporary.is_symlink():
        flush_tree(temporary)
    else:
        flush(temporary)
    make_folder(path.parent)
    temporary.replace(path)
    flush(path.parent)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a path beside `path` to write to; if the block succeeds, it is renamed to `path`, else removed.

    Its name has digits that differ between processes, since several may write the same file. `durable`: whether to
    `finish` it. Else the caller flushes it. The error of a full disk names `path`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_MACHINE:09d}{TEMPORARY}")
    make_folder(path.parent)
    try:
        yield temporary
        if durable:
            finish(temporary, path)
        else:
            temporary.replace(path)
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
