"""Reads columns of Parquet files that somebody else wrote, within bounds.

Of 40,000 damaged files (bits flipped anywhere, cut, any integer of the footer or of a page header replaced) none made
pyarrow 26 crash or hang, so files are read in this process. Two things had to be bounded: it reserves memory for as
many rows as the footer claims, and a short file may repeat one long value a million times.

Tested by `tests/builders/sources/readers/test_parquet.py`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError, one_line
from builders.sources.base import OtherDataError
from builders.storage.files import require_regular
from builders.storage.parquet import open_parquet, row_batches

_ROWS = 256
"""Rows that are decoded at a time: one long value that a file repeats fills memory at most so often."""

_LONGEST_NAME = 4096
"""Bytes of the longest file name with its folders: PATH_MAX of Linux."""

_METADATA = b"huggingface"

ADVICE = "Take the Parquet files that the Hub serves for the dataset itself"
"""The next step where a mirror cannot be used."""


@contextlib.contextmanager
def open_mirror(title: str, path: Path) -> Generator[pq.ParquetFile]:
    """Open a Parquet file, and turn what pyarrow raises about it within the block into a `BuildError`.

    Page checksums are verified where the file has them; `datasets` writes none.

    Args:
        title: the source's title.
        path: the file.

    Raises:
        BuildError: the file is not a regular one, not Parquet, encrypted or damaged, or claims more rows than bytes.
    """
    require_regular(path)
    try:
        with open_parquet(path, page_checksum_verification=True) as file:
            _check_rows(title, path, file.metadata)
            yield file
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise damaged(title, path, error) from error


def damaged(title: str, path: Path, problem: object) -> BuildError:
    """Return the error for a file that cannot be read; `problem` says why, in pyarrow's words or in ours."""
    reason = one_line(str(problem).strip().partition("\n")[0]).rstrip(".")
    return BuildError(f"{title}: {one_line(path)} cannot be read as Parquet ({reason}). Download it again.")


def _check_rows(title: str, path: Path, metadata: pq.FileMetaData) -> None:
    """Refuse absurd row counts. An image takes more than a byte, so a whole file has fewer rows than bytes."""
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    rows, size = metadata.num_rows, path.stat().st_size
    if min(groups, default=0) < 0 or sum(groups) != rows or rows > size:
        claimed = f"{rows:,} rows, and {sum(groups):,} in its row groups"
        raise damaged(title, path, f"its footer claims {claimed}, in {size:,} bytes")


def require_columns(
    title: str, path: Path, schema: pa.Schema, image: str, other: str | None, *, numbers: bool = False
) -> None:
    """Refuse a file without the column `image` (a struct of bytes and path) or `other` (integers if `numbers`)."""
    repeated = next((name for name in (image, other) if name is not None and schema.names.count(name) > 1), None)
    if repeated is not None:
        raise OtherDataError(f"{title}: {path} has {schema.names.count(repeated)} columns named {repeated}. {ADVICE}.")
    types = dict(zip(schema.names, schema.types, strict=True))
    fields = list(types[image]) if image in types and pa.types.is_struct(types[image]) else []
    image_fields = {field.name: field.type for field in fields}
    fits = other is None or (other in types and (not numbers or pa.types.is_integer(types[other])))
    if not {"bytes", "path"} <= set(image_fields) or len(image_fields) != len(fields) or not fits:
        other_required = "" if other is None else f" and {other}{' (numbers)' if numbers else ''}"
        raise OtherDataError(
            f"{title}: {path} lacks the columns {image} (bytes, path){other_required} (found: "
            f"{one_line(', '.join(schema.names))}). {ADVICE}."
        )
    for field, type_name, is_right in (
        ("bytes", "bytes", image_fields["bytes"] in (pa.binary(), pa.large_binary(), pa.binary_view())),
        ("path", "text", _is_text(image_fields["path"]) or pa.types.is_null(image_fields["path"])),
    ):
        if not is_right:
            actual = one_line(image_fields[field])
            raise OtherDataError(f"{title}: {image}.{field} of {path} is of type {actual}, not {type_name}. {ADVICE}.")


def read_columns(title: str, path: Path, file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Read existing columns, and refuse file names that are too long for any file system."""
    batches: list[pa.RecordBatch] = []
    for batch in row_batches(file, _ROWS, columns):
        batches.append(batch)
        longest = max((pc.max(pc.binary_length(text)).as_py() or 0 for text in _texts(batch)), default=0)
        if longest > _LONGEST_NAME:
            raise damaged(title, path, f"it has a file name of {longest:,} bytes")
    table = pa.Table.from_batches(batches) if batches else file.read(columns=list(columns))
    if table.num_rows != file.metadata.num_rows or {name.partition(".")[0] for name in columns} != set(
        table.column_names
    ):
        raise damaged(title, path, "its pages have other rows or columns than its footer claims")
    return table.combine_chunks()


def _texts(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    """Yield a batch's text columns as binary, whose lengths Arrow computes for all types of text."""
    for column in batch.columns:
        text = pc.struct_field(column, "path") if pa.types.is_struct(column.type) else column
        if _is_text(text.type):
            yield text.cast(pa.large_binary())


def text_column(title: str, path: Path, table: pa.Table, column: str) -> pa.Array:
    """Return a text column, such as `image.path`, as valid UTF-8."""
    outer, _, field = column.partition(".")
    values = table[outer].combine_chunks()
    values = pc.struct_field(values, field) if field else values
    try:
        # Arrow believes a file that its text is UTF-8, but checks a cast from bytes.
        return values.cast(pa.large_binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise damaged(title, path, f"a file name in {column} is not UTF-8") from error


def label_column(title: str, path: Path, table: pa.Table, label: str) -> pa.Array:
    """Return a column of label numbers as int64."""
    try:
        return pc.cast(table[label].combine_chunks(), pa.int64())
    except pa.ArrowInvalid as error:
        raise OtherDataError(
            f"{title}: {path} has labels of 2^63 or more in the column {label}, which number no class. {ADVICE}."
        ) from error


def is_text_column(schema: pa.Schema, name: str) -> bool:
    """Whether a schema has exactly one column of this name, and it holds text."""
    return schema.names.count(name) == 1 and _is_text(schema.field(name).type)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def label_names(title: str, path: Path, metadata: Mapping[bytes, bytes], label: str) -> tuple[str, ...] | None:
    """Return the label names of a column by number; None if the file has none.

    Args:
        title: the source's title.
        path: the file.
        metadata: its schema's metadata.
        label: name of the column.

    Raises:
        OtherDataError: the metadata is not what `datasets` writes.
    """
    if _METADATA not in metadata:
        return None
    try:
        node: Any = json.loads(metadata[_METADATA])
    except (ValueError, RecursionError) as error:
        raise _other_metadata(title, path, "is not JSON, or is nested too deeply") from error
    for step in ("info", "features", label, "names"):
        if not isinstance(node, dict):
            raise _other_metadata(title, path, f"has a list or a value in place of the object with the key {step}")
        node = node.get(step)
        if node is None:
            return None
    if not isinstance(node, list) or not all(isinstance(name, str) and _is_unicode(name) for name in node):
        raise _other_metadata(title, path, f"has names of {label} that are not a list of text")
    return tuple(node) or None


def _is_unicode(name: str) -> bool:
    """Whether a text from JSON has no lone surrogates, which UTF-8 cannot encode."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _other_metadata(title: str, path: Path, problem: str) -> OtherDataError:
    return OtherDataError(
        f"{title}: the metadata `huggingface` of {path} {problem}. Download the file again. {ADVICE}."
    )
