"""Writes files atomically, and only below their folder: a file is complete or does not exist.

`unknown_detection.durable` does so also for power cuts.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from builders.errors import BuildError
from unknown_detection.durable import replacing

TEMPORARY = ".tmp"
"""Suffix of every temporary file."""

_MACHINE = secrets.randbelow(10**9)
"""Separates processes of equal numbers on machines, or in containers, that share a folder."""


def inside(root: Path, path: str | Path) -> Path:
    """Return `root / path`, checked to lie inside `root` with symbolic links resolved.

    The names in `path` may come from a file that somebody else wrote. A file that is itself a symbolic link may stay:
    `atomic_path` replaces the link and not the file that it names.

    Raises:
        BuildError: the path leads out of `root`.
    """
    full = root / path
    folder = Path(os.path.realpath(full.parent))
    if full.name in ("", "..") or not folder.is_relative_to(os.path.realpath(root)):
        raise BuildError(
            f"{full} does not lie inside {root}: a name or a symbolic link leads to {folder}. Remove it, and run the "
            "same command again."
        )
    return full


def atomic_path(path: Path, *, durable: bool = True) -> contextlib.AbstractContextManager[Path]:
    """Yield a temporary path beside `path`; it becomes `path` if the block succeeds, and else is removed.

    Args:
        path: the file to write or replace; its folder is created.
        durable: whether it is on the disk when the block has ended. Else the caller flushes it, with its folder.
    """
    # The process id separates two processes that write the same file. Files of killed processes are removed later.
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_MACHINE:09d}{TEMPORARY}")
    return replacing(path, temporary, durable=durable)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, with Unix newlines."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
