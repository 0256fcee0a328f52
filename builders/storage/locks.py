"""Asks whether a process holds a lock file, without waiting and without writing anything."""

from __future__ import annotations

import os
from pathlib import Path


def is_held(path: Path) -> bool:
    """Whether a process holds a lock file of the package `filelock`.

    On Unix, `filelock` (4.2) locks the whole file with `flock`. A shared lock is granted exactly if nobody holds that
    one, and given back at once. Where there is no `flock` (Windows), the answer is always False.
    """
    try:
        import fcntl
    except ImportError:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False  # there is no such file, or nobody can have locked it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # the file system has no locks
    finally:
        os.close(descriptor)
    return False
