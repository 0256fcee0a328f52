"""Writing files so that under its own name a file is whole.

Tested by `tests/evaluation/features/test_store.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` when the block ends well, else remove it.

    Args:
        path: the file to write or to replace; its folder is made.

    Yields:
        The name to write under. It ends as `path` does, because some writers go by a file's ending.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The process id keeps two processes apart that come to write one file.
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def file_name(*parts: str) -> str:
    """A name for a file: the parts joined by hyphens, whatever signs stand in them."""
    return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-.") for part in parts)
