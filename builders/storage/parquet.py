"""Reads Parquet files and arrays and writes Arrow files, on this machine or in a store.

On this machine files are opened by their paths. In a store they are read by ranges: of a Parquet file the end, and
then each chunk of a column with a megabyte behind it, in which the small columns of a row group lie. Large tables of a
plan lie in temporary Arrow files instead of in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.storage.files import atomic_path, copy_here, open_whole, read_regular, refuse_irregular
from builders.storage.object_path import ObjectPath
from builders.storage.scratch import scratch_folder

UNREADABLE = (OSError, pa.ArrowException, UnicodeDecodeError)
"""Exceptions that opening and reading a damaged Parquet file raise."""

_END = 1 << 16
"""Bytes of the end of a Parquet file that pyarrow reads first, which hold the footer of all but wide or long files."""

_STREAMED = 1 << 20
"""Bytes of the buffer through which a column of a file is streamed."""

_NOT_LISTED = "its SHA-256 is not the one that manifest.json lists"

_BATCH_ROWS = 1 << 14
"""Rows of a batch of an Arrow file, which is what a task reads at least: a megabyte or two of a plan."""


def open_parquet(path: Path, part: str = "ranges", *, sha256: str = "", **options: Any) -> pq.ParquetFile:
    """Open a Parquet file, a context manager; raises one of `UNREADABLE` if that cannot be done.

    `part` is what is read: `schema`, `whole` or some `ranges`. From a store the first two take one request. `options`
    are those of `pq.ParquetFile`. In a store, whole chunks of columns are read whatever they say of buffers. With
    `sha256`, which somebody lists, another file is refused; it is read once, as a whole.
    """
    try:
        if sha256:
            data = read_regular(path)
            if hashlib.sha256(data).hexdigest() != sha256:
                raise pa.ArrowInvalid(_NOT_LISTED)
            return open_bytes(data, **options)
        if isinstance(path, ObjectPath):
            return checked(_requested(path, part, options))
        refuse_irregular(path, path.stat().st_mode)
        # Of a relative path, pyarrow takes ~ for a home folder.
        return checked(pq.ParquetFile(path.absolute(), **options))
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid("the name of a column is not UTF-8 text") from error


def open_bytes(data: bytes, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file that was read as a whole, so that nobody can change it meanwhile; raises `UNREADABLE`."""
    try:
        return checked(pq.ParquetFile(pa.BufferReader(data), **options))
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid("the name of a column is not UTF-8 text") from error


def _requested(path: Any, part: str, options: dict[str, Any]) -> pq.ParquetFile:
    """Open a Parquet file in a store, in one request for the `schema` or the `whole`."""
    if part == "whole":
        return pq.ParquetFile(pa.BufferReader(path.read_bytes()))
    if part == "schema":
        # A file with a longer footer, or a damaged one, is read as a whole.
        with contextlib.suppress(pa.ArrowInvalid):
            return pq.ParquetFile(pa.BufferReader(path.read_end(_END)))
    return pq.ParquetFile(path.open_ranges(), **{**options, "pre_buffer": False, "buffer_size": 0})


def checked(opened: pq.ParquetFile) -> pq.ParquetFile:
    """Return an open Parquet file after checking that its column names are distinct and its row count is right.

    Two columns of one name are refused, since pyarrow raises a `KeyError` where one of them is requested. So is a
    footer whose number of rows is not the sum of its row groups: rows are read by row group, and pyarrow compares
    neither with the other.
    """
    repeated = [name for name, count in Counter(opened.schema_arrow.names).items() if count > 1]
    if repeated:
        raise pa.ArrowInvalid(f"it has several columns named {repeated[0]}")
    metadata = opened.metadata
    groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows:
        claimed = f"{metadata.num_rows:,} rows, and its row groups {sum(groups):,}"
        raise pa.ArrowInvalid(f"its footer claims {claimed}")
    return opened


def open_streamed(path: Path) -> pq.ParquetFile:
    """Open a Parquet file so that columns pass through a small buffer, with memory independent of row groups."""
    return open_parquet(path, buffer_size=_STREAMED, pre_buffer=False)


@contextlib.contextmanager
def open_listed(path: Path, sha256: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file that somebody lists with its SHA-256, to be streamed as by `open_streamed`.

    The bytes that are compared are those that are then read: the file stays open, so one that is put in its place does
    not matter, and one that is written to meanwhile is an error. From a store it is copied first. Raises `UNREADABLE`.
    """
    with contextlib.ExitStack() as stack:
        here = path.absolute()
        if isinstance(path, ObjectPath):
            here = stack.enter_context(scratch_folder("read")) / path.name
            copy_here(path, here)
        refuse_irregular(path, here.stat().st_mode)
        opened = stack.enter_context(pa.OSFile(str(here)))
        before = os.fstat(opened.fileno())
        if hashlib.file_digest(opened, "sha256").hexdigest() != sha256:
            raise pa.ArrowInvalid(_NOT_LISTED)
        yield checked(pq.ParquetFile(opened, buffer_size=_STREAMED, pre_buffer=False))
        after = os.fstat(opened.fileno())
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise pa.ArrowInvalid("it was written to while it was read")


def read_parquet(path: Path, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
    """Read a Parquet file, or some columns of it; raises as `open_parquet`."""
    with open_parquet(path, "whole", **options) as opened:
        return read_rows(opened, columns)


def read_rows(opened: pq.ParquetFile, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
    """Read the rows of an open file, or some columns of them; `options` are those of `ParquetFile.read`.

    Fewer rows than the file claims are an error: pyarrow 26 returns as many as the first column has.
    """
    table = opened.read(columns=None if columns is None else list(columns), **options)
    _require_all(opened.metadata.num_rows - table.num_rows)
    return table


def read_schema(path: Path) -> pa.Schema:
    """Read the schema of a Parquet file, with its metadata; raises as `open_parquet`."""
    with open_parquet(path, "schema") as opened:
        return opened.schema_arrow


def read_row_count(path: Path) -> int:
    """Read the number of rows of a Parquet file; raises as `open_parquet`."""
    with open_parquet(path) as opened:
        return int(opened.metadata.num_rows)


def write_arrow(path: Path, table: pa.Table) -> None:
    """Write a table as an Arrow file, for `arrow_rows`."""
    table = table.unify_dictionaries()
    with atomic_path(path) as temporary, pa.ipc.new_file(str(temporary), table.schema) as writer:
        for start in range(0, table.num_rows, _BATCH_ROWS):
            writer.write_table(table.slice(start, _BATCH_ROWS).combine_chunks())


@contextlib.contextmanager
def arrow_rows(path: Path, start: int, stop: int) -> Iterator[pa.Table]:
    """Yield some rows of a table that `write_arrow` wrote; the file must exist until the block ends."""
    with path.open_ranges() if isinstance(path, ObjectPath) else pa.memory_map(str(path)) as opened:
        reader = pa.ipc.open_file(opened)
        # All batches are of equal size, so a row's is known without reading others.
        first = start // _BATCH_ROWS
        last = min(-(-stop // _BATCH_ROWS), reader.num_record_batches)
        batches = [reader.get_batch(number) for number in range(first, last)]
        yield pa.Table.from_batches(batches, reader.schema).slice(start - first * _BATCH_ROWS, stop - start)


def read_array(path: Path) -> npt.NDArray[Any]:
    """Read an array that `np.save` wrote."""
    with open_whole(path) as file:
        array: npt.NDArray[Any] = np.load(file)
    return array


def row_batches(
    parquet: pq.ParquetFile, size: int, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an open file, or of some of its row groups, in batches of at most `size`.

    Fewer rows than the file claims are an error: `iter_batches` of pyarrow 26 just ends where the pages of a column,
    or its own count, have fewer values than there are rows.
    """
    selected = list(range(parquet.num_row_groups) if groups is None else groups)
    missing = sum(parquet.metadata.row_group(group).num_rows for group in selected)
    for batch in parquet.iter_batches(size, row_groups=selected, columns=columns):
        missing -= batch.num_rows
        yield batch
    _require_all(missing)


_BATCH_BYTES, _MOST_ROWS = 1 << 22, 256
"""Bytes and rows of images in a batch at most (ours): its memory is then used for the next one. Larger blocks go back
to the system, which fills them with zeros again."""


def image_batch_rows(parquet: pq.ParquetFile, group: int) -> int:
    """Return how many rows of a row group of images are read at a time."""
    metadata = parquet.metadata.row_group(group)
    rows = _BATCH_BYTES * int(metadata.num_rows) // max(1, int(metadata.total_byte_size))
    return max(1, min(_MOST_ROWS, rows))


_LONGEST_TEXT = 1 << 16
"""Bytes of the longest text in a table that somebody else wrote: ids and names are far shorter."""

_ROWS = 1024

_LARGEST_BATCH = _ROWS * _LONGEST_TEXT

_MOST_UNPACKED = 1000
"""Times its size that such a table may have in memory, and rows a byte (ours): tables of scores have some 30 times."""


def read_bounded(opened: pq.ParquetFile, size: int, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a file of so many bytes that somebody else wrote, within bounds, and check all values.

    Raises:
        ValueError: it claims an absurd number of rows, has a very long text, or unpacks to far more than the file has.
        Exception: one of `UNREADABLE`, of a damaged file.
    """
    if opened.metadata.num_rows > _MOST_UNPACKED * size:  # memory would be reserved for them
        raise ValueError(f"its footer claims {opened.metadata.num_rows:,} rows in {size:,} bytes")
    batches, left = [], _LARGEST_BATCH + _MOST_UNPACKED * size
    # Few rows at a time: a short file may repeat one long text a million times.
    for batch in row_batches(opened, _ROWS, columns):
        left -= batch.nbytes
        if batch.nbytes > _LARGEST_BATCH:
            raise ValueError("it has very long texts")
        if left < 0:
            raise ValueError(f"it unpacks to more than {_MOST_UNPACKED:,} times its {size:,} bytes")
        batches.append(batch)
    schema = opened.schema_arrow
    fields = [schema.field(column) for column in schema.names if column in columns]
    table = pa.Table.from_batches(batches, pa.schema(fields, schema.metadata))
    table.validate(full=True)  # text that is not UTF-8, too
    return table.combine_chunks()


def _require_all(missing: int) -> None:
    if missing:
        raise pa.ArrowInvalid(f"it lacks {missing:,} of the rows that it claims")


def row_group(parquet: pq.ParquetFile, group: int) -> pq.RowGroupMetaData:
    """Return the metadata of a row group after checking that each column can be read and is as its metadata claim.

    `RowGroupMetaData.column` of pyarrow 26 ends the process with SIGABRT where a column's metadata contradict the
    schema. Reading a row runs into the same contradiction, and raises `OSError` or `pa.ArrowException`. Other readers
    than pyarrow may go by the number of values; columns of lists have any. Those that filter rows leave out whole
    groups by their statistics, and some by Bloom filters, which no release has.
    """
    next(parquet.iter_batches(batch_size=1, row_groups=[group], use_threads=False), None)
    metadata = parquet.metadata.row_group(group)
    for number in range(metadata.num_columns if metadata.num_rows else 0):
        values = metadata.column(number).num_values
        if values != metadata.num_rows and not parquet.schema.column(number).max_repetition_level:
            claimed = f"{values:,} values of {metadata.column(number).path_in_schema} in {metadata.num_rows:,} rows"
            raise pa.ArrowInvalid(f"its footer claims {claimed}")
        if getattr(metadata.column(number), "bloom_filter_offset", None) is not None:  # not of all versions of pyarrow
            raise pa.ArrowInvalid(f"it has a Bloom filter of {metadata.column(number).path_in_schema}")
        if metadata.column(number).is_stats_set:
            _compare_statistics(parquet, group, number)
    return metadata


def _compare_statistics(parquet: pq.ParquetFile, group: int, number: int) -> None:
    """Compare the statistics of a column of a row group with its values; bounds may be wider, as of long texts."""
    described, column = parquet.schema.column(number), parquet.metadata.row_group(group).column(number)
    if column.physical_type != described.physical_type:  # `statistics` of pyarrow 26 would end the process
        raise pa.ArrowInvalid(f"its footer claims {column.physical_type} values of {described.path}")
    stated, nulls, wrong = column.statistics, 0, False
    for batch in parquet.iter_batches(_ROWS, row_groups=[group], columns=[described.path], use_threads=False):
        values: Any = batch.column(0)
        while pa.types.is_nested(values.type):  # of one child, since one column is read
            values = pc.struct_field(values, 0) if pa.types.is_struct(values.type) else pc.list_flatten(values)
        nulls += values.null_count
        try:
            least, greatest = (bound.as_py() for bound in pc.min_max(values).values())
        except pa.ArrowNotImplementedError:
            return  # a type that no column of ours has, which whoever compares the schema names
        if stated.has_min_max and least is not None:
            # A text where the schema says bytes cannot be compared.
            wrong |= type(stated.min) is not type(least) or stated.min > least or greatest > stated.max
    if stated.has_null_count and not described.max_repetition_level:
        wrong |= stated.null_count != nulls
    if wrong:
        raise pa.ArrowInvalid(f"its statistics of {described.path} are not those of its values")


LARGE = 1 << 25
"""Bytes from which on a table is spilled (ours): smaller ones are not worth a file."""

BLOCK = 1 << 18
"""Rows that are in memory at a time (ours): of a plan, some 40 MB."""


def spilled(blocks: Iterable[pa.Table], large: int = LARGE) -> pa.Table:
    """Concatenate tables; a large result is mapped from a temporary file without a name.

    Pages of the file take memory only while they are read, and the system drops them when it needs the space. There is
    at least one table; all have one schema, and equal dictionaries. `large` are the bytes from which on they are
    spilled.
    """
    remaining, tables, size = iter(blocks), [], 0
    for block in remaining:
        tables.append(block)
        size += block.nbytes
        if size >= large:
            break
    else:
        return pa.concat_tables(tables)
    handle, path = tempfile.mkstemp(suffix=".arrow")
    try:
        with os.fdopen(handle, "wb") as sink, pa.ipc.new_file(sink, tables[0].schema) as writer:
            while tables:
                writer.write_table(tables.pop(0), BLOCK)
            for block in remaining:
                writer.write_table(block, BLOCK)
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    finally:
        with contextlib.suppress(PermissionError):  # Windows keeps a mapped file
            Path(path).unlink()
