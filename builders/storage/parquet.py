"""Opens Parquet files, Arrow files and arrays, on this machine or in a store: the one place that knows how.

On this machine files are opened by their paths, and Arrow files and arrays are mapped into memory. In a store they are
read by ranges: of a Parquet file the end, and then each chunk of a column with a megabyte behind it, in which the
small columns of a row group lie.
"""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from builders.storage.atomic import atomic_path
from builders.storage.paths import is_remote
from builders.storage.regular import refuse_irregular

_END = 1 << 16
"""Bytes of the end of a Parquet file that pyarrow reads first, which hold the footer of all but wide or long files."""

_BATCH_ROWS = 1 << 14
"""Rows of a batch of an Arrow file in a store, which is what a task reads at least: a megabyte or two of a plan."""


def open_parquet(path: Path, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file; a context manager.

    Args:
        path: the file.
        options: of `pq.ParquetFile`. In a store, whole chunks of columns are read whatever they say of buffers.

    Raises:
        OSError, pa.ArrowException: the file is not there, is no Parquet file, or has two columns of one name.
        BuildError: there is no regular file, or the store refuses or fails.
    """
    if is_remote(path):
        options |= {"pre_buffer": False, "buffer_size": 0}
        return _open(path.open_ranges(), **options)  # type: ignore[attr-defined]
    refuse_irregular(path, path.stat().st_mode)
    return _open(path, **options)


def _open(source: Any, **options: Any) -> pq.ParquetFile:
    """Open a file whose columns can be told apart; of others pyarrow raises a `KeyError` where one is asked for."""
    try:
        opened = pq.ParquetFile(source, **options)
        names = opened.schema_arrow.names
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid("the name of a column is not UTF-8 text") from error
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise pa.ArrowInvalid(f"it has several columns named {twice[0]}")
    return opened


def read_parquet(path: Path, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
    """Read a Parquet file, or some columns of it, in a store by one request; raises as `open_parquet`."""
    if is_remote(path):
        return _open(pa.BufferReader(path.read_bytes())).read(columns=None if columns is None else list(columns))
    with open_parquet(path, **options) as opened:
        return opened.read(columns=None if columns is None else list(columns))


def read_schema(path: Path) -> pa.Schema:
    """Read the schema of a Parquet file, with its metadata; raises as `open_parquet`."""
    if is_remote(path):
        try:
            return pq.read_schema(pa.BufferReader(path.read_end(_END)))  # type: ignore[attr-defined]
        except pa.ArrowInvalid:
            pass  # its footer is longer, or it is damaged: the whole file tells
    with open_parquet(path) as opened:
        return opened.schema_arrow


def read_row_count(path: Path) -> int:
    """Read the number of rows of a Parquet file; raises as `open_parquet`."""
    with open_parquet(path) as opened:
        return int(opened.metadata.num_rows)


def write_arrow(path: Path, table: pa.Table) -> None:
    """Write a table as an Arrow file, for `arrow_rows`."""
    remote = is_remote(path)
    with atomic_path(path) as temporary, pa.ipc.new_file(str(temporary), table.schema) as writer:
        if remote:  # batches of equal size, so that a row's batch is known without reading others
            writer.write_table(table.combine_chunks(), max_chunksize=_BATCH_ROWS)
        else:
            writer.write_table(table)


@contextlib.contextmanager
def arrow_rows(path: Path, start: int, stop: int) -> Iterator[pa.Table]:
    """Some rows of a table that `write_arrow` wrote; the file must stay until the block ends."""
    if is_remote(path):
        with path.open_ranges() as opened:  # type: ignore[attr-defined]
            reader = pa.ipc.open_file(opened)
            first = start // _BATCH_ROWS
            last = min(-(-stop // _BATCH_ROWS), reader.num_record_batches)
            batches = [reader.get_batch(number) for number in range(first, last)]
            table = pa.Table.from_batches(batches, reader.schema)
            yield table.slice(start - first * _BATCH_ROWS, stop - start)
    else:
        with pa.memory_map(str(path)) as source:
            yield pa.ipc.open_file(source).read_all().slice(start, stop - start)


def load_array(path: Path, *, mapped: bool = False) -> npt.NDArray[Any]:
    """Load an array that `np.save` wrote.

    Args:
        path: the file.
        mapped: whether a file on this machine is mapped into memory.
    """
    if is_remote(path):
        loaded: npt.NDArray[Any] = np.load(io.BytesIO(path.read_bytes()))
        return loaded
    array: npt.NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None)
    return array
