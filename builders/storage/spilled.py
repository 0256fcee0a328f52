"""Tables that lie in a temporary file instead of in memory.

Tested by `tests/builders/sources/test_repeated.py`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

LARGE = 1 << 25
"""Bytes from which on a table is spilled (ours): smaller ones are not worth a file."""

BLOCK = 1 << 20
"""Rows that are in memory at a time (ours): of a plan, some 150 MB."""


def spilled(blocks: Iterable[pa.Table], large: int = LARGE) -> pa.Table:
    """The rows of some tables end to end; if they are large, mapped from a temporary file that has no name.

    Pages of the file take memory only while they are read, and the system drops them when it needs the space.

    Args:
        blocks: at least one table; all have one schema, and equal dictionaries.
        large: bytes from which on they are spilled.
    """
    rest, first, size = iter(blocks), [], 0
    for block in rest:
        first.append(block)
        size += block.nbytes
        if size >= large:
            break
    else:
        return pa.concat_tables(first)
    handle, path = tempfile.mkstemp(suffix=".arrow")
    try:
        with os.fdopen(handle, "wb") as sink, pa.ipc.new_file(sink, first[0].schema) as writer:
            while first:
                writer.write_table(first.pop(0), BLOCK)
            for block in rest:
                writer.write_table(block, BLOCK)
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    finally:
        with contextlib.suppress(PermissionError):  # Windows keeps a mapped file
            Path(path).unlink()
