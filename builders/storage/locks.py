"""Lock files on this machine's disks; the operating system releases them when their process ends, even by SIGKILL.

They are `flock`s of the package `filelock`. Network disks may lack these. Where the system has no such call for a disk
(ENOSYS, as of Lustre that is mounted without `flock`), filelock writes the owner's machine and process into the file
instead, and takes over what a process of this machine left that has ended: a soft lock. Where a disk refuses the call
(ENOLCK, EOPNOTSUPP, as of NFS without its lock service), nothing is held and the command ends.

Tested by `tests/builders/storage/test_locks.py`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from builders.errors import BuildError
from builders.storage.object_path import ObjectPath
from unknown_detection.durable import make_folder

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)

_TAKEN = (errno.EACCES, errno.EAGAIN)
"""Errors of `flock` for a lock that is held; flock(2) has EAGAIN, and some network disks say EACCES."""

_ELSEWHERE = "choose a folder on a disk of this machine, or have that one mounted with locks."


@contextlib.contextmanager
def file_lock(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file inside the block; raises `BuildError` with the message `busy` if another process holds it.

    Its folder is made. Else it raises as `acquire` does. A store has no locks: there, a file that several runs change
    is only replaced if nobody has changed it since it was read (`builders.storage.files.replace_unless_changed`).
    """
    if isinstance(path, ObjectPath):
        yield
        return
    make_folder(path.parent)
    lock = acquire(path, _ELSEWHERE)
    if lock is None:
        raise BuildError(busy)
    with lock:
        yield


def acquire(path: Path, advice: str) -> FileLock | None:
    """Take a lock file without waiting; returns None if another process holds it.

    Raises `BuildError`, with advice that follows a colon, where the disk has no locks, and `OSError` where it refuses
    the file.
    """
    lock = FileLock(path)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "flock not supported", UserWarning)  # a soft lock is as good here
            lock.acquire(timeout=0)
    except Timeout:
        return None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            reason = error.strerror or str(error)
            raise BuildError(
                f"Cannot lock {path}: {reason[:1].lower()}{reason[1:]}. Some network disks have no locks: {advice}"
            ) from error
        error.filename = error.filename or str(path)  # which `flock` does not say
        raise
    return lock


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock file, asked without writing; always False in a store.

    A shared lock is granted exactly if nobody holds that one, and given back at once. Where there is no `flock`
    (Windows), the answer is always False.
    """
    if isinstance(path, ObjectPath):
        return False
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (ImportError, OSError):
        return False  # no flock, no such file, or nobody can have locked it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _TAKEN or (error.errno == errno.ENOSYS and _is_soft_locked(path))
    finally:
        os.close(descriptor)
    return False


def _is_soft_locked(path: Path) -> bool:
    """Whether a soft lock's owner may be running: on this machine its process is looked for, of another one it may.

    A file of filelock (since 3.22) has a line each with the process's number and its machine, in a container with the
    inode of its process namespace.
    """
    try:
        process, host, *_ = path.read_text(encoding="utf-8").splitlines()
        here = socket.gethostname()
        if host in (here, f"{here}?pidns-{Path('/proc/self/ns/pid').stat().st_ino:x}"):
            os.kill(int(process), 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except (OSError, ValueError, OverflowError):  # nobody's to signal, or a file in the making
        return True
    return True
