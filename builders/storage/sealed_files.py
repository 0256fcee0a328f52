"""Reads and writes files of sealed residuals: one for each shard of sealed images, in the order of its rows.

`builders.generate.sealed` describes the format of a residual, and seals and opens it. This module knows what can be
read without an original: a file's columns, and the header of each residual.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from builders.errors import BuildError, first_line, one_line
from builders.storage.files import require_regular
from builders.storage.parquet import UNREADABLE, open_parquet, row_batches

SCHEMA = pa.schema([("id", pa.string()), ("sealed", pa.binary())])
"""Columns of such a file: the row's id, and the residual."""

VERSION = 2
"""Version of the format of a sealed residual."""

TAG_BYTES = 16
"""The tag of AES-GCM, at the end of the ciphertext (RFC 5116, section 5.1)."""

_MAGIC = b"UDSR"
_HEADER = struct.Struct("<4sBIII8s32s")
HEADER_BYTES = _HEADER.size

_GROUP_BYTES = 32 * 1024 * 1024
"""Bytes of residuals in one row group, as of images in a shard (`builders.pipeline.shards`)."""

_ROWS_BETWEEN_PAGE_CHECKS = 8
_BATCH_ROWS = 64
_FETCH = "Fetch the release again."


class SealedHeader(NamedTuple):
    """The header of a sealed residual: the image's size, the ciphertext's bytes, the key check, and the digest."""

    height: int
    width: int
    size: int
    check: bytes
    digest: bytes

    def encode(self) -> bytes:
        """Return the header's bytes."""
        return _HEADER.pack(_MAGIC, VERSION, *self)


def read_sealed_header(sealed: bytes, name: str) -> SealedHeader:
    """Read the header of a sealed residual; `BuildError` if it is none, of another version, or incomplete."""
    name = one_line(name)
    if len(sealed) < HEADER_BYTES or sealed[:4] != _MAGIC:
        raise BuildError(f"The residual of {name} is not sealed as these tools seal. {_FETCH}")
    _, version, *fields = _HEADER.unpack(sealed[:HEADER_BYTES])
    if version != VERSION:
        raise BuildError(
            f"The residual of {name} is sealed in version {version} of the format, and these tools open version "
            f"{VERSION}. Use the tools that published it."
        )
    header = SealedHeader(*fields)
    if len(sealed) != HEADER_BYTES + header.size:
        raise BuildError(
            f"The residual of {name} is not whole: it has {len(sealed):,} bytes, not {HEADER_BYTES + header.size:,}. "
            f"{_FETCH}"
        )
    return header


class SealedWriter:
    """Writes a file of sealed residuals one after the other; a context manager."""

    def __init__(self, path: Path, metadata: Mapping[str, str] | None = None) -> None:
        self._schema = SCHEMA.with_metadata(dict(metadata or {}))
        self._writer = pq.ParquetWriter(
            str(path),
            self._schema,
            compression={"id": "zstd", "sealed": "none"},  # what is encrypted does not get smaller
            use_dictionary=False,
            write_statistics=["id"],
            write_page_index=True,
            write_batch_size=_ROWS_BETWEEN_PAGE_CHECKS,
        )
        self._rows: list[tuple[str, bytes]] = []
        self._pending = 0

    def __enter__(self) -> SealedWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def add(self, row_id: str, sealed: bytes) -> None:
        """Write the next residual."""
        self._rows.append((row_id, sealed))
        self._pending += len(sealed)
        if self._pending >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.table(list(zip(*self._rows, strict=True)), schema=self._schema))
        self._rows, self._pending = [], 0


def read_residuals(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the ids and residuals of a file that `SealedWriter` wrote here."""
    with open_parquet(path, pre_buffer=False) as opened:
        for batch in row_batches(opened, _BATCH_ROWS):
            yield from zip(batch["id"].to_pylist(), batch["sealed"].to_pylist(), strict=True)


def published_residuals(paths: Sequence[Path], ids: pa.ChunkedArray, side: int) -> Iterator[list[bytes]]:
    """Read a split's published sealed residuals, some rows at a time; `BuildError` if they are not its own."""
    first = 0
    for path in paths:
        require_regular(path)
        try:
            with open_parquet(path, pre_buffer=False) as opened:
                if not opened.schema_arrow.equals(SCHEMA):
                    raise _unusable(path, "its columns are not id and sealed")
                for batch in row_batches(opened, _BATCH_ROWS):
                    yield _checked(batch, ids.slice(first, batch.num_rows), side, path)
                    first += batch.num_rows
        except UNREADABLE as error:
            raise _unusable(path, first_line(error).rstrip(".")) from error
    if first != len(ids):
        raise _unusable(paths[-1], f"the split has {len(ids):,} rows, and residuals of the first {first:,}")


def _checked(batch: pa.RecordBatch, ids: pa.ChunkedArray, side: int, path: Path) -> list[bytes]:
    if batch["id"].null_count or batch["sealed"].null_count:
        raise _unusable(path, "a cell has no value")
    if batch["id"].to_pylist() != ids.to_pylist():
        raise _unusable(path, "its rows are not those of the split's index")
    sealed: list[bytes] = batch["sealed"].to_pylist()
    for name, residual in zip(ids.to_pylist(), sealed, strict=True):
        check_size(read_sealed_header(residual, name), name, side)
    return sealed


def check_size(header: SealedHeader, name: str, side: int) -> None:
    """Raise `BuildError` unless a residual is of a square image of this size."""
    if (header.height, header.width) != (side, side):
        raise BuildError(
            f"The residual of {one_line(name)} is of {header.width:,} x {header.height:,} pixels, and its split has "
            f"images of {side} x {side}. {_FETCH}"
        )


def _unusable(path: Path, reason: str) -> BuildError:
    return BuildError(f"Cannot read the sealed residuals {path}: {reason}. {_FETCH}")
