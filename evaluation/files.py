"""Atomic file writes, and file names.

Tested by `tests/evaluation/features/test_store.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, and rename it to `path` if the block succeeds; else delete it.

    Args:
        path: the file to write or replace; its folder is created.

    Yields:
        The path to write to. It keeps the file's ending, because some writers choose the format by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # With the process id, two processes that write the same file do not collide.
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def file_name(*parts: str) -> str:
    """Join parts to a file name with hyphens, replacing characters that are unsafe in file names."""
    return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-.") for part in parts)
