"""Walks through the index of a split beside its files, so that files that follow each other read it once.

Tested by `tests/hf_scripts/checks/test_many_shards.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from builders.storage.parquet import UNREADABLE, open_streamed, row_batches

_BATCH_ROWS = 8192


class IndexWalk:
    """The rows of one index at a time, from any row on; only who goes back, or to another index, reads it again.

    Use it as a context manager: it keeps the index open.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._batches: Iterator[pa.Table] | None = None
        self._left = pa.table({})
        self._next = 0

    def __enter__(self) -> IndexWalk:
        return self

    def __exit__(self, *_: object) -> None:
        self._batches = None

    def rows(self, path: Path, schema: pa.Schema, first: int, count: int) -> pa.Table | None:
        """Return `count` rows from `first` on, as many of them as there are; None where the index cannot be read.

        What is wrong with an index, or that it has another schema, its own task reports.
        """
        if path != self._path or first < self._next:
            self._path, self._batches = path, _read(path, schema, first)
            self._left, self._next = schema.empty_table(), first
        try:
            while self._batches is not None:
                passed = min(first - self._next, self._left.num_rows)
                self._left, self._next = self._left.slice(passed), self._next + passed
                if self._left.num_rows >= count or (more := next(self._batches, None)) is None:
                    return self._left.slice(0, count)
                self._left = pa.concat_tables([self._left, more])
        except UNREADABLE:
            self._batches = None
        return None


def _read(path: Path, schema: pa.Schema, first: int) -> Iterator[pa.Table]:
    """Yield an index from a row on, which lies in the first row group that is read."""
    with open_streamed(path) as parquet:
        if not parquet.schema_arrow.equals(schema):
            raise pa.ArrowInvalid("it has other columns")
        group = 0
        while group < parquet.num_row_groups and (rows := parquet.metadata.row_group(group).num_rows) <= first:
            group, first = group + 1, first - rows
        for batch in row_batches(parquet, _BATCH_ROWS, groups=range(group, parquet.num_row_groups)):
            skipped = min(first, batch.num_rows)
            first -= skipped
            yield pa.Table.from_batches([batch]).slice(skipped).cast(schema)
