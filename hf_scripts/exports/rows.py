"""The rows of a split with their images, read a few at a time and checked against what the release says of them.

Tested by `tests/hf_scripts/test_export.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError
from builders.release import images
from builders.release.digests import rows_digest
from builders.release.entries import SplitEntry
from hf_scripts.checks.rows import UNREADABLE
from hf_scripts.exports.names import extension

_BATCH_ROWS = 64

# Stream a column through a small buffer, so that memory does not follow the size of a row group.
_open = partial(pq.ParquetFile, buffer_size=1024 * 1024, pre_buffer=False)


@dataclass(frozen=True)
class Row:
    """One row of a split.

    `columns` are all but the image; `image` is its bytes as they are stored, `name` its file's name in the source and
    `kind` the extension, without a point, of the format that the bytes are in.
    """

    columns: dict[str, Any]
    image: memoryview
    name: str
    kind: str


def check_identity(root: Path, key: str, split: SplitEntry) -> None:
    """Check that the shards of a split hold the rows that the manifest says, without reading images.

    Args:
        root: the release folder.
        key: `config/split`.
        split: its entry in the manifest.

    Raises:
        BuildError: they hold others, or cannot be read.
    """
    parts = []
    for file in split.data:
        with _shard(root, file.path) as parquet:
            parts.append(parquet.read(columns=["id", "label", "role", "content_sha256"]))
    found = rows_digest(pa.concat_tables(parts))
    if found != split.digest:
        raise BuildError(
            f"expected rows with digest {split.digest[:12]} in the shards of {key}, found {found[:12]}, in {root}; "
            f"{_see_verify(root)}"
        )


def read_rows(root: Path, key: str, split: SplitEntry) -> Iterator[Row]:
    """Read a split's rows, in order.

    Args:
        root: the release folder.
        key: `config/split`.
        split: its entry in the manifest.

    Raises:
        BuildError: a shard cannot be read, or an image is not the one that its row names.
    """
    for file in split.data:
        with _shard(root, file.path) as parquet:
            for group in range(parquet.num_row_groups):
                for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group]):
                    yield from _rows(batch, key, root)


def _rows(batch: pa.RecordBatch, key: str, root: Path) -> Iterator[Row]:
    encoded = batch.column("image")
    names = pc.struct_field(encoded, "path").to_pylist()
    columns = batch.drop_columns("image").to_pylist()
    for row, name, value in zip(columns, names, pc.struct_field(encoded, "bytes"), strict=True):
        image = memoryview(value.as_buffer() or b"").cast("B")
        where = f"{row['id']} of {key}"
        found = _content_sha256(row["stored"], image, where)
        if found != row["content_sha256"]:
            raise BuildError(
                f"expected the image with content_sha256 {row['content_sha256'][:12]} in the row {where}, found "
                f"{found[:12]}, in {root}; {_see_verify(root)}"
            )
        yield Row(row, image, name or "", extension(bytes(image[:12]), where))


def _content_sha256(stored: str, image: memoryview, where: str) -> str:
    if stored != "pixels":
        return hashlib.sha256(image).hexdigest()
    try:
        return images.pixel_sha256(images.decode_or_mend(bytes(image))[0])
    except images.UnreadableImageError as error:
        raise BuildError(
            f"expected an image that decodes in the row {where}, found {error}; build that split again."
        ) from error


@contextlib.contextmanager
def _shard(root: Path, path: str) -> Iterator[pq.ParquetFile]:
    try:
        with _open(root / path) as parquet:
            yield parquet
    except UNREADABLE as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BuildError(f"expected a readable shard at {root / path}, found {reason}; {_see_verify(root)}") from error


def _see_verify(root: Path) -> str:
    return f"`python -m hf_scripts.verify {root}` says what else is wrong, and the builder makes it whole again."
