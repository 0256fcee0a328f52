"""Reads the rows of a split with their images in small batches, and checks their digests.

Tested by `tests/hf_scripts/test_export.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.errors import BuildError, first_line, one_line
from builders.release import images
from builders.release.digests import IDENTITY, file_sha256, rows_digest
from builders.release.entries import ConfigEntry, SplitEntry
from builders.release.schema import arrow_schema, without_values
from builders.storage.parquet import UNREADABLE, open_listed, open_streamed, row_batches
from hf_scripts.checks.index_walk import IndexWalk
from hf_scripts.exports.names import extension

_BATCH_ROWS = 64
_INDEX_BATCH_ROWS = 8192


@dataclass(frozen=True)
class ImageRow:
    """One row of a split.

    `columns` are all columns but the image, `image` its stored bytes, `name` its file name in the source, and `kind`
    the extension of its actual format, without the dot.
    """

    columns: dict[str, Any]
    image: memoryview
    name: str
    kind: str


def check_identity(root: Path, key: str, config: ConfigEntry, split: SplitEntry) -> None:
    """Check the columns, cells and digest of the rows of `key` against manifest and index, without reading images."""
    expected, index, first = arrow_schema(config.label_names, config.columns), root / split.index.path, 0
    parts, others = [], ""
    if not index.is_file() or file_sha256(index) != split.index.sha256:
        raise _damaged(root, f"{index} is not the file that manifest.json lists")
    of_index = arrow_schema(config.label_names, config.columns, image=False).remove_metadata()
    with IndexWalk() as walk:
        for file in split.data:
            with _shard(root, file.path) as parquet:
                if not parquet.schema_arrow.equals(expected):
                    names = sorted({column.name for column in {*parquet.schema_arrow} ^ {*expected}})
                    shown = one_line(", ".join(names)) or "the order of columns"
                    raise _damaged(
                        root,
                        f"{root / file.path} has other columns than manifest.json says, or of other types: {shown}",
                    )
                for batch in row_batches(
                    parquet, _INDEX_BATCH_ROWS, [name for name in expected.names if name != "image"]
                ):
                    batch.validate(full=True)  # text that is not UTF-8
                    if empty := without_values(batch, config.columns):
                        raise _damaged(root, f"{root / file.path} has rows without a value in the column {empty[0]}")
                    rows = walk.rows(index, of_index, first, batch.num_rows)
                    if rows is None or not pa.Table.from_batches([batch]).select(of_index.names).equals(rows):
                        others = others or file.path
                    first += batch.num_rows
                    parts.append(batch.select(IDENTITY))
    digest = rows_digest(pa.Table.from_batches(parts, pa.schema([expected.field(name) for name in IDENTITY])))
    if digest != split.digest:
        wrong = f"have rows with digest {digest[:12]}, not {split.digest[:12]} as in its manifest"
        raise _damaged(root, f"The shards of {key} in {root} {wrong}")
    if others:
        raise _damaged(root, f"{root / others} has other rows than {split.index.path}")


def read_image_rows(root: Path, key: str, split: SplitEntry) -> Iterator[ImageRow]:
    """Yield the rows of the split `key` with their images, in order, of the shards that the manifest lists.

    Shards may be replaced after their rows were checked, so each is compared when it is open for the last time.
    """
    for file in split.data:
        with _shard(root, file.path, file.sha256) as parquet:
            for group in range(parquet.num_row_groups):
                for batch in row_batches(parquet, _BATCH_ROWS, groups=[group]):
                    yield from _rows(batch, key, root)


def _rows(batch: pa.RecordBatch, key: str, root: Path) -> Iterator[ImageRow]:
    encoded = batch.column("image")
    names = pc.struct_field(encoded, "path").to_pylist()
    columns = batch.drop_columns("image").to_pylist()
    for row, name, value in zip(columns, names, pc.struct_field(encoded, "bytes"), strict=True):
        image = memoryview(value.as_buffer() or b"").cast("B")
        where = f"{row['id']} of {key}"
        try:
            digest = images.content_sha256(row["stored"], image)
        except images.UnreadableImageError as error:
            raise BuildError(f"The image of row {where} does not decode ({error}). Build that split again.") from error
        if digest != row["content_sha256"]:
            wrong = f"the digest {digest[:12]}, not its content_sha256 {row['content_sha256'][:12]}"
            raise _damaged(root, f"The image of row {where} in {root} has {wrong}")
        yield ImageRow(row, image, name or "", extension(bytes(image[:12]), where))


@contextlib.contextmanager
def _shard(root: Path, path: str, sha256: str = "") -> Iterator[pq.ParquetFile]:
    try:
        with open_listed(root / path, sha256) if sha256 else open_streamed(root / path) as parquet:
            yield parquet
    except UNREADABLE as error:
        raise _damaged(root, f"Cannot read {root / path}: {first_line(error)}") from error


def _damaged(root: Path, problem: str) -> BuildError:
    advice = f"List all problems with python -m hf_scripts.verify {root}, and build the release again."
    return BuildError(f"{problem}. {advice}")
