"""Writes files atomically, and only below their folder: a file is complete or does not exist.

`unknown_detection.durable` does so also for power cuts. In a store a file is written here first, and then sent whole.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from builders.storage.paths import store_of
from builders.storage.stores.errors import ChangedMeanwhileError

__all__ = ["TEMPORARY", "ChangedMeanwhileError", "atomic_path", "inside", "write_text"]

TEMPORARY = ".tmp"
"""Suffix of every temporary file."""


def inside(root: Path, path: str | Path) -> Path:
    """Return `root / path`, checked to lie inside `root` with symbolic links resolved.

    The names in `path` may come from a file that somebody else wrote. A file that is itself a symbolic link may stay:
    `atomic_path` replaces the link and not the file that it names.

    Raises:
        BuildError: the path leads out of `root`.
    """
    return store_of(root).inside(root, path)


def atomic_path(path: Path, *, durable: bool = True) -> AbstractContextManager[Path]:
    """Yield a temporary path on this machine; its file becomes `path` if the block succeeds, and else is removed.

    The temporary path is beside `path`, or for a file in a store in the folder for temporary files.

    Args:
        path: the file to write or replace; its folder is created.
        durable: whether it is on the disk when the block has ended. Else the caller flushes it, with its folder. What
            a store has taken is durable.
    """
    return store_of(path).written(path, durable=durable)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, with Unix newlines."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
