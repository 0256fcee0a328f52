"""Tables that stay compressed in memory: the index of a million images takes a few megabytes, and is read by blocks.

Names of images differ little from one to the next, so zstd keeps about a tenth of their bytes, and reading a block is
faster than hashing a hundredth of it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BLOCK = 1 << 16
"""Rows of a block (ours): about 3 MB of ids when it is read, and enough for zstd to find what they have in common."""

Int64 = npt.NDArray[np.int64]


class CompressedTable:
    """A table whose columns are compressed by blocks of `BLOCK` rows; equal columns of text are stored once.

    `compressed["name"]` reads one column, as with a `pyarrow.Table`.
    """

    def __init__(self, table: pa.Table) -> None:
        self.num_rows: int = table.num_rows
        self.schema: pa.Schema = table.schema
        self._block = BLOCK
        self._same = _equal_texts(table)
        stored = table.select([name for name in table.column_names if name not in self._same]).unify_dictionaries()
        self._stored = stored.column_names
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
        with pa.ipc.new_file(sink, stored.schema, options=options) as writer:
            for start in range(0, table.num_rows, self._block):
                writer.write_table(stored.slice(start, self._block).combine_chunks())
        self._bytes = sink.getvalue()

    @property
    def nbytes(self) -> int:
        """Compressed bytes."""
        return int(self._bytes.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompressedTable) and bool(self.read().equals(other.read()))

    __hash__ = None  # type: ignore[assignment]  # as of a `pyarrow.Table`

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.read([name]).column(0)

    def read(self, names: Sequence[str] | None = None) -> pa.Table:
        """All rows of some columns, or of all."""
        return self._named(self._reader(names).read_all(), names)

    def take(self, names: Sequence[str], rows: Int64) -> pa.Table:
        """Some rows of some columns, in the given order; only the blocks that have them are read."""
        order = None if (rows[1:] >= rows[:-1]).all() else np.argsort(rows, kind="stable")
        ascending = rows if order is None else rows[order]
        parts = [part for _, part in self.blocks(names, ascending)]
        if not parts:
            return pa.schema([self.schema.field(name) for name in names]).empty_table()
        table = pa.concat_tables(parts)
        if order is None:
            return table
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return table.combine_chunks().take(pa.array(back))

    def blocks(self, names: Sequence[str], rows: Int64) -> Iterator[tuple[slice, pa.Table]]:
        """Read some rows block by block, so that one block at a time is in memory.

        Args:
            names: the columns.
            rows: ascending row numbers.

        Yields:
            Which of `rows`, and the columns of these.
        """
        reader = self._reader(names)
        bounds = np.searchsorted(rows, np.arange(reader.num_record_batches + 1) * self._block)
        for number, (start, stop) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            if start == stop:
                continue
            inside = rows[start:stop] - number * self._block
            table = pa.Table.from_batches([reader.get_batch(number)])
            whole = np.array_equal(inside, np.arange(table.num_rows))
            yield slice(start, stop), self._named(table if whole else table.take(pa.array(inside)), names)

    def _reader(self, names: Sequence[str] | None) -> pa.ipc.RecordBatchFileReader:
        wanted = {self._same.get(name, name) for name in (self._stored if names is None else names)}
        fields = [place for place, name in enumerate(self._stored) if name in wanted]
        return pa.ipc.open_file(
            pa.BufferReader(self._bytes), options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        )

    def _named(self, table: pa.Table, names: Sequence[str] | None) -> pa.Table:
        """The columns by their names, of which several may be one that is stored."""
        names = self.schema.names if names is None else names
        return pa.table({name: table[self._same.get(name, name)] for name in names})


def _equal_texts(table: pa.Table) -> dict[str, str]:
    """Columns of text that are equal to an earlier one, with its name: often an image's id is its path."""
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    same: dict[str, str] = {}
    for place, name in enumerate(texts):
        for earlier in texts[:place]:
            if earlier not in same and table[name].equals(table[earlier]):
                same[name] = earlier
                break
    return same


class Piece(Protocol):
    """One of the tables of `Stacked`; it may have more columns than its compressed table."""

    @property
    def table(self) -> CompressedTable:
        """What is compressed."""

    def read(self, names: Sequence[str] | None = None) -> pa.Table:
        """All rows of some columns, or of all."""

    def take(self, names: Sequence[str], rows: Int64) -> pa.Table:
        """Some rows of some columns, in the given order."""


class Stacked:
    """Tables one after another, whose rows are counted on from one to the next.

    Attributes:
        pieces: the tables, at least one.
    """

    pieces: Sequence[Piece]

    @functools.cached_property
    def starts(self) -> Int64:
        """Number of the first row of each piece, and of all rows; (pieces + 1,)."""
        return np.cumsum([0, *(piece.table.num_rows for piece in self.pieces)])

    @property
    def num_rows(self) -> int:
        """Rows of all pieces."""
        return int(self.starts[-1])

    @property
    def table(self) -> pa.Table:
        """All rows in memory: for small tables, or where every row is looked at."""
        return _joined([piece.read() for piece in self.pieces])

    def piece_of(self, rows: Int64) -> Int64:
        """Position in `pieces` of the piece that each of some rows is of."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    def column(self, name: str) -> pa.ChunkedArray:
        """All rows of one column."""
        return _joined([piece.read([name]) for piece in self.pieces]).column(0)

    def take(self, names: Sequence[str], rows: Int64) -> pa.Table:
        """Some columns of some rows, in the given order."""
        piece_of = self.piece_of(rows)
        found = np.unique(piece_of).tolist() or [0]
        taken = [self.pieces[i].take(names, rows[piece_of == i] - self.starts[i]) for i in found]
        if len(taken) == 1:
            return taken[0]
        by_piece = np.argsort(piece_of, kind="stable")
        return _joined(taken).combine_chunks().take(pa.array(np.argsort(by_piece)))


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries()


def repeated_text(tables: Sequence[CompressedTable], name: str) -> str | None:
    """The least text that a column has twice in several tables together, None if there is none.

    A table whose texts ascend, and lie apart from those of the other tables, cannot have one twice. The others are
    compared by 64-bit hashes, 8 bytes a row, where Arrow's distinct count would take 500.
    """
    ranges = sorted((*_range(table[name]), place) for place, table in enumerate(tables) if table.num_rows)
    alone = {place for _, _, ascends, place in ranges if ascends}
    highest = ranges[:1]
    for first, last, ascends, place in ranges[1:]:
        if first <= highest[0][1]:
            alone -= {place, highest[0][3]}
        if last > highest[0][1]:
            highest = [(first, last, ascends, place)]
    others = [table for place, table in enumerate(tables) if place not in alone]
    every = np.sort(np.concatenate([np.empty(0, np.int64), *(_hashes(table[name]) for table in others)]))
    if not (every[1:] == every[:-1]).any():
        return None
    counts = pc.value_counts(
        pa.chunked_array([chunk for table in others for chunk in table[name].chunks], pa.string())
    )
    twice: str | None = pc.min(counts.field("values").filter(pc.greater(counts.field("counts"), 1))).as_py()
    return twice  # None where two texts share a hash


def _range(column: pa.ChunkedArray) -> tuple[str, str, bool]:
    """The least and the greatest text of a column, and whether each text is greater than the one before."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    inside = all(pc.all(pc.less(chunk[:-1], chunk[1:]), min_count=0).as_py() for chunk in chunks)
    ascends = inside and all(a[-1].as_py() < b[0].as_py() for a, b in itertools.pairwise(chunks))
    bounds = pc.min_max(column)
    return bounds["min"].as_py(), bounds["max"].as_py(), ascends


def _hashes(column: pa.ChunkedArray) -> Int64:
    parts = [np.fromiter(map(hash, chunk.to_pylist()), np.int64, len(chunk)) for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.int64), *parts])
