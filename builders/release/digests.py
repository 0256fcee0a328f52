"""Digests of a split's rows and of files.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

IDENTITY = ("id", "label", "role", "content_sha256")
"""The columns that a row is known by."""


def rows_digest(rows: pa.Table) -> str:
    """Return the digest of a split: the SHA-256 over the `IDENTITY` columns of every row, in order."""
    return lines_digest(rows, IDENTITY)


def lines_digest(rows: pa.Table, columns: Sequence[str]) -> str:
    """Return the SHA-256 of some columns as UTF-8 text: tabs between cells, a newline after each row."""
    digest = hashlib.sha256()
    for batch in rows.select(columns).to_batches(max_chunksize=65536):
        lines = pc.binary_join_element_wise(*(batch[name].cast(pa.string()) for name in columns), "\t")
        for line in lines.to_pylist():
            digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as lower-case hex."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
