"""Makes temporary folders, which a later run removes if a process that made one was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from builders.errors import BuildError, os_errors_as_build_errors
from builders.storage.locks import acquire

_PREFIX = "unknown-detection-"
_LOCK = ".lock"


@contextlib.contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Yield a new temporary folder that is deleted when the block ends; `BuildError` if none can be made.

    A killed process leaves its folder behind, with what it had downloaded. The process holds a lock in the folder, and
    the operating system releases it even after SIGKILL, so the next run can tell such a folder from one in use.
    `purpose` is a word for the folder's name: only leftovers of the same purpose are removed.
    """
    with os_errors_as_build_errors("make a temporary folder"):
        remove_stale_folders(purpose)
        root, lock = _new(f"{_PREFIX}{purpose}-")
    owner = os.getpid()
    try:
        with os_errors_as_build_errors("make a temporary folder"):
            (root / "files").mkdir()
        yield root / "files"
    finally:
        if os.getpid() == owner:  # a process forked from this one has only a copy of the lock
            lock.release()  # first, because Windows deletes no open file
            _remove(root)


def remove_stale_folders(purpose: str) -> None:
    """Remove temporary folders of this purpose that this user's killed processes left."""
    for root in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}{purpose}-*")):
        # Without a lock file it is not ours, or was made a moment ago and is about to be locked.
        lock_file = root / _LOCK
        if root.is_symlink() or lock_file.is_symlink() or not lock_file.is_file() or not _is_own(root):
            continue
        # One whose disk refuses locks stays: nobody can know whether it is in use.
        with contextlib.suppress(BuildError, OSError):
            if (lock := _acquire(root)) is not None:
                lock.release()
                _remove(root)


def _new(prefix: str) -> tuple[Path, FileLock]:
    """Make a folder and lock it; without its lock it would stay for good."""
    while True:
        root = Path(tempfile.mkdtemp(prefix=prefix))
        try:
            lock = _acquire(root)
        except (BuildError, OSError):
            _remove(root)
            raise
        if lock is not None:
            return root, lock  # else another run took the new folder for a leftover, and removed it


def _acquire(root: Path) -> FileLock | None:
    with contextlib.suppress(FileNotFoundError):
        return acquire(root / _LOCK, "let TMPDIR name a folder on a disk of this machine.")
    return None


def _remove(root: Path) -> None:
    """Remove a folder as far as possible, its lock file last: by that a later run knows what was left."""
    shutil.rmtree(root / "files", ignore_errors=True)
    if not (root / "files").exists():
        shutil.rmtree(root, ignore_errors=True)


def _is_own(root: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return not hasattr(os, "getuid") or root.stat().st_uid == os.getuid()
    return False
