"""Writes shards. A shard depends only on its slice of the plan, so any process may write it, in any order, and twice.

Worker processes import this module and `builders.pipeline.row_groups`, so the two import little: NumPy, pyarrow, Pillow
and the standard library.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.executors.base import ONE_CORE, Progress, Resources
from builders.generate.batches import Batch
from builders.pipeline.row_groups import Group, GroupImages
from builders.release.images import BY_PIXELS, Stored
from builders.release.schema import PIXEL_DIGEST, PLANNED, demo_metadata, is_demo_schema
from builders.storage.byte_ranges import Reader
from builders.storage.files import atomic_path
from builders.storage.parquet import arrow_rows, read_schema
from builders.storage.paths import as_path
from builders.storage.sealed_files import SealedWriter, read_residuals

SHARD_BYTES = 512 * 1024 * 1024
"""Image bytes in one shard: close to the 500 MB that suit the Hub's viewer and streaming readers."""

# The writer checks only every so many rows whether a page (1 MB) is full. With its default of 1,024, a whole row group
# of images becomes one page, and a reader could not use the page index to fetch a single image.
_ROWS_BETWEEN_PAGE_CHECKS = 8


@dataclass(frozen=True)
class ShardTask:
    """Writes one shard; a `builders.executors.base.Task`.

    `plan` is an Arrow IPC file with the plan's columns, the config's own (`columns`), and `root`, `file`, `offset`,
    `size`; the shard is its rows `start:stop`, with `size` bytes of images. Plans of `generated` images also have
    `content_sha256`, and in `unreadable` the reason if an image could not be generated; their rows say `stored` of
    their bytes. `roots` maps the names in `root` to folders. `data` is the file for the images (None: index only),
    `part` the file for the index rows and the shard's record. `sealed` is the file for the images' sealed residuals,
    None if they are not sealed.
    """

    plan: Path
    start: int
    stop: int
    size: int
    roots: dict[str, str]
    data: Path | None
    part: Path
    schema: pa.Schema
    decode: bool
    drop_unreadable: bool
    columns: tuple[str, ...] = ()
    generated: bool = False
    stored: Stored = "pixels"
    sealed: Path | None = None
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> ShardRecord:
        """Read, check, hash and write the images of one shard.

        The data file, the sealed residuals and then the part file are written under temporary names and renamed, so
        that the shard is complete once its part file exists.

        Raises:
            BuildError: an image is missing or unreadable (unless `drop_unreadable`).
            OSError: a file cannot be written.
        """
        with arrow_rows(self.plan, self.start, self.stop) as rows:
            images = GroupImages(rows, self.roots, progress)
            with _data_writer(self) as (sink, writer), Reader() as reader:
                groups = (
                    images.generated(reader, self.stored)
                    if self.generated
                    else images.copied(reader, decode=self.decode, drop_unreadable=self.drop_unreadable)
                )
                parts = [_write_group(self, rows, group, writer) for group in groups]
            size, digest = (sink.size, sink.digest.hexdigest()) if sink is not None else (0, "")
            sealed = 0
            if self.sealed is not None:
                sealed = _write_sealed(rows, self.roots, self.sealed, demo=is_demo_schema(self.schema))
        written = sum(part.num_rows for part in parts)
        record = ShardRecord(written, size, digest, self.decode, tuple(images.dropped), sealed)
        index = pa.concat_tables(parts or [_index_rows(self, rows.slice(0, 0), Group.nothing())])
        metadata = {_RECORD: json.dumps(asdict(record)).encode()}
        with atomic_path(self.part) as temporary:
            pq.write_table(index.replace_schema_metadata(metadata), temporary, compression="zstd")
        return record


@dataclass(frozen=True)
class ShardRecord:
    """The record of a finished shard, stored in the metadata of its part file.

    `bytes` and `sha256` are those of the data file (0 and empty without pixels), `sealed_bytes` those of the sealed
    residuals; `decoded` says whether every image was decoded; `dropped` has the row id and the reason of each image
    left out as unreadable.
    """

    rows: int
    bytes: int
    sha256: str
    decoded: bool
    dropped: tuple[tuple[str, str], ...]
    sealed_bytes: int = 0


_RECORD = b"shard_record"


def read_record(part: Path) -> ShardRecord:
    """Read the record that a `ShardTask` stored in a part file."""
    record = json.loads(read_schema(part).metadata[_RECORD])
    return ShardRecord(**{**record, "dropped": tuple((image, reason) for image, reason in record["dropped"])})


class _HashingFile(io.RawIOBase):
    """A file that computes the SHA-256 of the bytes as they are written, so that it need not be read again."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.digest = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.digest.update(view)
        written = 0
        while written < len(view):
            written += self._raw.write(view[written:])
        self.size += written
        return written

    def tell(self) -> int:
        return self.size


@contextlib.contextmanager
def _data_writer(task: ShardTask) -> Iterator[tuple[_HashingFile | None, pq.ParquetWriter | None]]:
    if task.data is None:
        yield None, None
        return
    with atomic_path(task.data) as temporary, temporary.open("wb", buffering=0) as raw:
        sink = _HashingFile(raw)
        with pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            task.schema,
            # Source files are compressed already; generated PNGs are not (`builders.generate.png`).
            compression={"image.bytes": "zstd" if task.generated else "none", "image.path": "zstd"}
            | dict.fromkeys(task.schema.names[1:], "zstd"),
            use_dictionary=["role", "label", "class_id", "class_name", "source", "stored"],
            write_statistics=[name for name in task.schema.names if name != "image"],
            write_page_index=True,
            write_batch_size=_ROWS_BETWEEN_PAGE_CHECKS,
        ) as writer:
            yield sink, writer


def _write_group(task: ShardTask, rows: pa.Table, group: Group, writer: pq.ParquetWriter | None) -> pa.Table:
    """Write a row group and return its index rows."""
    index = _index_rows(task, rows.take(group.numbers), group)
    if writer is not None:
        count = len(group.numbers)
        encoded = pa.Array.from_buffers(pa.binary(), count, [None, group.offsets.buffers()[1], group.data])
        names = [source_id.rpartition("/")[2] for source_id in index["source_id"].to_pylist()]
        for number, stored in enumerate(group.stored):
            if stored in BY_PIXELS:
                names[number] = f"{os.path.splitext(names[number])[0]}.png"  # noqa: PTH122 - a name, not a path
        fields = list(writer.schema.field("image").type)
        image = pa.StructArray.from_arrays([encoded, pa.array(names, pa.string())], fields=fields)
        columns = [image, *(index[name].combine_chunks() for name in writer.schema.names[1:])]
        writer.write_table(pa.Table.from_arrays(columns, schema=writer.schema), row_group_size=count)
    return index


def _index_rows(task: ShardTask, rows: pa.Table, group: Group) -> pa.Table:
    index = rows.select(PLANNED)
    index = index.append_column("content_sha256", pa.array(group.digests, pa.string()))
    index = index.append_column("stored", pa.array(group.stored, pa.string()))
    for name in task.columns:
        index = index.append_column(name, rows[name])
    if task.decode and not task.generated:
        index = index.append_column(PIXEL_DIGEST, pa.array(group.pixels, pa.string()))
    return index


def _write_sealed(rows: pa.Table, roots: Mapping[str, str], target: Path, *, demo: bool) -> int:
    """Write the sealed residuals of a shard and return the bytes of the file.

    A batch's rows stand together in the shard's plan and in the batch's order; `demo` says whether they are of demo
    sources.
    """
    readable = rows.filter(pc.equal(rows["unreadable"], ""))
    packs = zip(readable["root"].to_pylist(), readable["file"].to_pylist(), strict=True)
    row_ids = set(readable["id"].to_pylist())
    with atomic_path(target) as temporary:
        with SealedWriter(temporary, demo_metadata(demo=demo)) as writer:
            for root, file in dict.fromkeys(packs):
                for row_id, sealed in read_residuals(Batch(0, 0, as_path(roots[root]) / file).sealed):
                    if row_id in row_ids:
                        writer.add(row_id, sealed)
        return temporary.stat().st_size
