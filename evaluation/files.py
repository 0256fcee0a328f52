"""Files: atomic writes, reading what somebody else wrote, and names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.errors import EvaluationError, first_line, one_line

_LARGEST_JSON = 1 << 28
"""Bytes. The manifest of a release of ImageNet has a few hundred thousand."""

_LONGEST_TEXT = 1 << 16
"""Bytes of the longest text in a table: ids and names are far shorter."""

_ROWS = 1024


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, and rename it to `path` if the block succeeds; else delete it.

    Args:
        path: the file to write or replace; its folder is created.

    Yields:
        The path to write to. It keeps the file's ending, because some writers choose the format by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # With the process id, two processes that write the same file do not collide.
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def file_name(*parts: str) -> str:
    """Join parts to a file name with hyphens, replacing characters that are unsafe in file names."""
    return "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-.") for part in parts)


def require_regular(path: Path) -> None:
    """Refuse a path that is no regular file: a named pipe would block for ever, a folder has no content.

    Raises:
        EvaluationError: it does not exist, cannot be looked at, or is something else.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise EvaluationError(f"Cannot read {one_line(path)}: {error.strerror}. Check the path.") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a named pipe, socket or device"
        raise EvaluationError(f"{one_line(path)} is {kind}, not a file. Put the file itself there.")


def read_json(path: Path) -> Any:
    """Read a JSON file, of any shape.

    Raises:
        EvaluationError: as for `require_regular`.
        ValueError: it is not JSON, nested too deeply or too large.
    """
    require_regular(path)
    with path.open("rb") as file:
        data = file.read(_LARGEST_JSON + 1)
    if len(data) > _LARGEST_JSON:
        raise ValueError(f"it has more than {_LARGEST_JSON:,} bytes")
    return parse_json(data)


def parse_json(data: bytes) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def is_text_by_text(value: object) -> bool:
    """Whether a value from JSON is an object whose keys and values are printable text."""
    return isinstance(value, dict) and all(
        isinstance(text, str) and text.isprintable() for text in (*value, *value.values())
    )


def read_parquet(source: Path | bytes, name: str) -> pa.Table:
    """Read a Parquet table that somebody else wrote, within bounds, and check all its values.

    Args:
        source: the file, or its content.
        name: the table, for messages.

    Raises:
        EvaluationError: as for `require_regular`, it is not Parquet, is encrypted or damaged, claims an absurd number
            of rows, has a column twice, or a very long text.
    """
    if isinstance(source, Path):
        require_regular(source)
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    try:
        opened = source if isinstance(source, Path) else pa.BufferReader(source)
        with pq.ParquetFile(opened, page_checksum_verification=True) as file:
            _check_rows(file.metadata, size)
            schema = file.schema_arrow
            if len(set(schema.names)) < len(schema.names):
                raise ValueError("it has two columns of one name")
            batches = []
            # Few rows at a time: a short file may repeat one long text a million times.
            for batch in file.iter_batches(batch_size=_ROWS):
                if batch.nbytes > _ROWS * _LONGEST_TEXT:
                    raise ValueError("it has very long texts")
                batches.append(batch)
            table = pa.Table.from_batches(batches, schema)
            table.validate(full=True)  # text that is not UTF-8, too
            return table
    except (pa.ArrowException, OSError, ValueError) as error:  # a name of a column may be a UnicodeDecodeError
        raise EvaluationError(
            f"Cannot read {name} as Parquet: {first_line(error)}. Write or download the file again."
        ) from error


def _check_rows(metadata: pq.FileMetaData, size: int) -> None:
    """Refuse absurd row counts, for which memory would be reserved; our rows take more than a byte."""
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows or metadata.num_rows > 1000 * size:
        raise ValueError(f"its footer claims {metadata.num_rows:,} rows in {size:,} bytes")
