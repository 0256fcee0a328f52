"""Holds a lock file of this machine, or asks whether a process holds it, without waiting."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from builders.errors import BuildError


@contextlib.contextmanager
def held(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file while the block runs. The operating system drops it with the process, also on SIGKILL.

    Args:
        path: the lock file, which is created if it does not exist.
        busy: the message if another process holds it.

    Raises:
        BuildError: another process holds it.
    """
    try:
        lock = FileLock(path).acquire(timeout=0)
    except Timeout as error:
        raise BuildError(busy) from error
    with lock:
        yield


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
