"""Writes files atomically: a file is complete or does not exist.

Tested by `tests/builders/writing/test_shards.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

TEMPORARY = ".tmp"
"""Suffix of every temporary file."""


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, else remove it."""
    # The process id separates two processes that write the same file. Files of killed processes are removed later.
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
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
