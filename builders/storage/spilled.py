"""Tables that lie in a temporary file instead of in memory.

Tested by `tests/builders/sources/test_repeated.py`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import pyarrow as pa

LARGE = 1 << 25
"""Bytes from which on a table is spilled (ours): smaller ones are not worth a file."""


def spilled(table: pa.Table) -> pa.Table:
    """The same rows with one chunk a column; of a large table, mapped from a temporary file that has no name.

    Pages of the file take memory only while they are read, and the system drops them when it needs the space.
    """
    table = table.unify_dictionaries().combine_chunks()
    if table.nbytes < LARGE:
        return table
    handle, path = tempfile.mkstemp(suffix=".arrow")
    try:
        with os.fdopen(handle, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    finally:
        with contextlib.suppress(PermissionError):  # Windows keeps a mapped file
            Path(path).unlink()
