"""Opens regular files only: a named pipe would block for ever, and a folder or device has no content to read.

Tested by `tests/builders/storage/test_regular.py`.
"""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from builders.errors import BuildError, one_line

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading bytes; links are followed.

    Raises:
        BuildError: it does not exist, is not a regular file, or cannot be read.
    """
    require_regular(path)
    try:
        # Should a pipe have taken the file's place meanwhile, O_NONBLOCK opens it without waiting for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from error
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise BuildError(f"{one_line(path)} changed while it was opened. Run the same command again.")
    return file


def require_regular(path: Path) -> None:
    """Refuse a path that is not a regular file, for libraries that open a path themselves.

    Raises:
        BuildError: it does not exist, is not a regular file, or its folder cannot be read.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise BuildError(f"{one_line(path)} is {kind}, not a file. Put the file itself there.")


def _unreadable(path: Path, error: OSError) -> BuildError:
    return BuildError(f"Cannot read {one_line(path)}: {error.strerror}. Restore it and run again.")
