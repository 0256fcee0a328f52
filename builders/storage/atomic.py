"""Writes files atomically, and only below their folder: a file is complete or does not exist."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from builders.errors import BuildError

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


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, else remove it."""
    # The process id separates two processes that write the same file. Files of killed processes are removed later.
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_MACHINE:09d}{TEMPORARY}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, with Unix newlines."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
