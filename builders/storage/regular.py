"""Reads regular files only: opening a FIFO would wait for a writer, and a device may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_bytes(path: Path, most: int) -> bytes:
    """The contents of a regular file.

    Args:
        path: the file.
        most: upper limit on its size in bytes.

    Raises:
        OSError: it cannot be opened, is not a regular file, or is larger; `strerror` gives the reason.
    """
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            data = opened.read(most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return data
