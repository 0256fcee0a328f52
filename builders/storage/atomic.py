"""Files that are whole or not there.

Tested by `tests/builders/pipeline/test_shards.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

TEMPORARY = ".tmp"
"""End of every temporary name."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` when the block ends well, else remove it."""
    # The process id keeps two processes apart that come to write one file; what a killed one leaves is swept later.
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file or nothing, with Unix newlines."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
