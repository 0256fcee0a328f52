"""A shard is a pure function of its slice of the plan: any process may write it, in any order, twice.

This module is what a worker process imports, so it stays light: pyarrow, Pillow and the standard library. Bytes go
from the source file into one buffer, are hashed and checked there, and go from there into Parquet without becoming
Python objects.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from builders import images
from builders.errors import BuildError

ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Image bytes in one row group. Hub practice asks for at most 100 MB; a third of it keeps a worker under 300 MB,
because the buffer and the writer's pages both hold one group."""

SHARD_BYTES = 512 * 1024 * 1024
"""Image bytes in one shard, near the 500 MB that the Hub's viewer and streaming readers work well with."""

Progress = Callable[[int, int], None]
"""Called with images and bytes done since the last call."""

TEMPORARY = ".tmp"
"""End of every temporary name."""

# The writer looks only after so many rows whether a page (1 MB) is full. With its default of 1,024 a whole row group
# of images becomes one page, and the page index could not lead a reader to a single image.
_ROWS_BETWEEN_PAGE_CHECKS = 8

_PROGRESS_EVERY = 64


@dataclass(frozen=True)
class ShardTask:
    """Everything a worker needs for one shard.

    `plan` is an Arrow IPC file with the plan's columns, the config's own (`columns`) and `root`, `file`, `offset`,
    `size`; the shard is its rows `start:stop`, `size` bytes of images. Where images were made (`builders.strips`), it
    also has their `content_sha256` and `unreadable`, the reason why one could not be made. `roots` maps the names in
    `root` to folders. `data` is where the pixels go (None: index only), `part` where the index rows and the record of
    the shard go.
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
    made: bool = False

    def run(self, progress: Progress) -> None:
        """Write the shard."""
        write_shard(self, progress)


@dataclass(frozen=True)
class ShardRecord:
    """What is known of a finished shard.

    `bytes` and `sha256` are of the data file (0 and empty without pixels); `decoded` says that every image was
    decoded; `dropped` has the row id and the reason of each image left out as unreadable. It travels in the
    metadata of the part file, whose existence marks the end.
    """

    rows: int
    bytes: int
    sha256: str
    decoded: bool
    dropped: tuple[tuple[str, str], ...]


_RECORD = b"shard_record"
_ROW_COLUMNS = ("label", "role", "class_id", "class_name", "source", "source_id", "id")


def write_shard(task: ShardTask, progress: Progress) -> ShardRecord:
    """Read, check, hash and write the images of one shard.

    The data file and then the part file are written under temporary names and renamed, so that a part file means a
    whole shard.

    Raises:
        BuildError: an image is missing or unreadable (unless `drop_unreadable`), or the disk refuses.
    """
    with pa.memory_map(str(task.plan)) as source:
        rows = pa.ipc.open_file(source).read_all().slice(task.start, task.stop - task.start)
        task.part.parent.mkdir(parents=True, exist_ok=True)
        with _data_writer(task) as (sink, writer), Reader() as reader:
            parts, dropped = _write_groups(task, rows, writer, reader, progress)
        size, digest = (sink.size, sink.hexdigest()) if sink is not None else (0, "")
    record = ShardRecord(sum(part.num_rows for part in parts), size, digest, task.decode, tuple(dropped))
    index = pa.concat_tables(parts) if parts else _index_rows(task, rows.slice(0, 0), [], [])
    metadata = {_RECORD: json.dumps(asdict(record)).encode()}
    with replacing(task.part) as temporary:
        pq.write_table(index.replace_schema_metadata(metadata), temporary, compression="zstd")
    return record


def read_record(part: Path) -> ShardRecord:
    """Read back what `write_shard` recorded."""
    record = json.loads(pq.read_schema(part).metadata[_RECORD])
    return ShardRecord(**{**record, "dropped": tuple((image, reason) for image, reason in record["dropped"])})


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` when the block ends well, else remove it."""
    # The process id keeps two processes apart that come to write one file; what a killed one leaves is swept later.
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _HashingFile:
    """A file that knows the SHA-256 of what was written, so that no file is read again for its digest."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._digest = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._digest.update(view)
        written = 0
        while written < len(view):
            written += self._raw.write(view[written:])
        self.size += written
        return written

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._raw.flush()

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


@contextlib.contextmanager
def _data_writer(task: ShardTask) -> Iterator[tuple[_HashingFile | None, pq.ParquetWriter | None]]:
    if task.data is None:
        yield None, None
        return
    with replacing(task.data) as temporary, temporary.open("wb", buffering=0) as raw:
        sink = _HashingFile(raw)
        with pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            task.schema,
            # A source's files are compressed already; the PNGs that we make are not (`builders.png`).
            compression={"image.bytes": "zstd" if task.made else "none", "image.path": "zstd"}
            | dict.fromkeys(task.schema.names[1:], "zstd"),
            use_dictionary=["role", "label", "class_id", "class_name", "source", "stored"],
            write_statistics=[name for name in task.schema.names if name != "image"],
            write_page_index=True,
            write_batch_size=_ROWS_BETWEEN_PAGE_CHECKS,
        ) as writer:
            yield sink, writer


def _write_groups(
    task: ShardTask, rows: pa.Table, writer: pq.ParquetWriter | None, reader: Reader, progress: Progress
) -> tuple[list[pa.Table], list[tuple[str, str]]]:
    buffer = _Group(ROW_GROUP_BYTES)
    finished: list[pa.Table] = []
    dropped: list[tuple[str, str]] = []
    places = zip(*(rows[name].to_pylist() for name in ("root", "file", "offset", "size")), strict=True)
    made = rows["content_sha256"].to_pylist() if task.made else []
    failed = rows["unreadable"].to_pylist() if task.made else []
    expected = rows["expected_sha256"].to_pylist() if "expected_sha256" in rows.column_names else []
    count = Counted(rows.num_rows, progress)
    for number, (root, file, offset, size) in enumerate(places):
        path = os.path.join(task.roots[root], file)  # noqa: PTH118 - a Path costs more than reading the file
        if buffer.filled and buffer.filled + size > ROW_GROUP_BYTES:
            finished.append(_flush(task, rows, buffer, writer))
        start = buffer.filled
        reader.read_into(buffer.reserve(size), path, offset)
        buffer.filled += size
        count.one(size)
        if task.made:
            if failed[number]:
                dropped.append((rows["id"][number].as_py(), failed[number]))
            else:
                _refuse_other_content(rows, number, made[number], path, expected)
                buffer.keep(number, made[number], "pixels")
            continue
        try:
            mended = images.check(buffer.view(start), decode=task.decode)
        except images.UnreadableImageError as error:
            if not task.drop_unreadable:
                raise unreadable(rows, number, path, error) from error
            dropped.append((rows["id"][number].as_py(), str(error)))
            buffer.forget(start)
        else:
            if mended is not None:
                buffer.replace(start, mended)
            digest = hashlib.sha256(buffer.view(start)).hexdigest()
            _refuse_other_content(rows, number, digest, path, expected)
            buffer.keep(number, digest, "source" if mended is None else "metadata_removed")
    if buffer.numbers:
        finished.append(_flush(task, rows, buffer, writer))
    return finished, dropped


def _refuse_other_content(rows: pa.Table, number: int, digest: str, path: str, expected: list[str]) -> None:
    """Where a plan comes from a published index, refuse an image that is not the publisher's."""
    if expected and digest != expected[number]:
        raise BuildError(
            f"expected the image {rows['id'][number]} with content_sha256 {expected[number]} as published, found "
            f"{digest} at {_place(rows, number, path)}; give the edition that the publisher used."
        )


def unreadable(rows: pa.Table, number: int, path: str, error: Exception) -> BuildError:
    """The sentence for an image that does not decode."""
    place = _place(rows, number, path)
    return BuildError(
        f"expected a whole image, found one that does not decode ({error}) at {place}; "
        "replace it with a good copy, or leave it out with --allow-partial."
    )


class Counted:
    """Reports images and bytes every so often, and at the end."""

    def __init__(self, images: int, progress: Progress) -> None:
        self.left, self.progress = images, progress
        self.images = self.bytes = 0

    def one(self, size: int) -> None:
        """One more image is done."""
        self.images += 1
        self.bytes += size
        self.left -= 1
        if self.images == _PROGRESS_EVERY or not self.left:
            self.progress(self.images, self.bytes)
            self.images = self.bytes = 0


def _place(rows: pa.Table, number: int, path: str) -> str:
    """Where an image is, for a person: the file, and the image's own id where the file holds many."""
    source_id = rows["source_id"][number].as_py()
    return path if path.endswith(source_id.rpartition("/")[2]) else f"{path} ({source_id})"


class _Group:
    """One row group in the making: image bytes end to end, and which plan rows they belong to."""

    def __init__(self, capacity: int) -> None:
        self.data = bytearray(capacity)
        self.clear()

    def clear(self) -> None:
        self.filled = 0
        self.numbers: list[int] = []
        self.offsets: list[int] = [0]
        self.digests: list[str] = []
        self.stored: list[str] = []

    def reserve(self, size: int) -> memoryview:
        """Room for `size` more bytes; an image larger than the whole buffer makes it grow."""
        if self.filled + size > len(self.data):
            grown = bytearray(self.filled + size)
            grown[: self.filled] = self.view(0)
            self.data = grown
        return memoryview(self.data)[self.filled : self.filled + size]

    def view(self, start: int) -> memoryview:
        return memoryview(self.data)[start : self.filled]

    def forget(self, start: int) -> None:
        self.filled = start

    def replace(self, start: int, data: bytes) -> None:
        self.filled = start
        self.reserve(len(data))[:] = data
        self.filled += len(data)

    def keep(self, number: int, digest: str, stored: images.Stored) -> None:
        self.numbers.append(number)
        self.offsets.append(self.filled)
        self.digests.append(digest)
        self.stored.append(stored)


class Reader:
    """Reads spans of files. The last file stays open, since thousands of images in turn lie in one archive or pack."""

    def __init__(self) -> None:
        self._path = ""
        self._raw: IO[bytes] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read_into(self, target: memoryview, path: str, offset: int) -> None:
        """Fill a buffer from a file.

        Raises:
            BuildError: the file cannot be read or has too few bytes.
        """
        size = len(target)
        try:
            got = self._fill(target, path, offset)
        except OSError as error:
            raise BuildError(
                f"expected a readable image, found {error.strerror} at {path}; "
                "mend the source folder and run the same command again, which goes on where this run stopped."
            ) from error
        if got != size:
            raise BuildError(
                f"expected {size:,} bytes, found {got:,} at {path}: the file changed during the build; "
                "run the same command again, which goes on where this run stopped."
            )

    def _fill(self, target: memoryview, path: str, offset: int) -> int:
        if self._raw is None or path != self._path:
            self._close()
            self._raw = open(path, "rb", buffering=0)  # noqa: PTH123, SIM115 - see the caller; closed at the end
            self._path = path
        self._raw.seek(offset)
        got = 0
        while got < len(target) and (more := self._raw.readinto(target[got:])):  # type: ignore[attr-defined]
            got += more
        return got

    def _close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None


def _flush(task: ShardTask, rows: pa.Table, buffer: _Group, writer: pq.ParquetWriter | None) -> pa.Table:
    """Write the buffer as one row group and return its index rows."""
    index = _index_rows(task, rows.take(pa.array(buffer.numbers, pa.int64())), buffer.digests, buffer.stored)
    if writer is not None:
        count = len(buffer.numbers)
        data = pa.py_buffer(memoryview(buffer.data)[: buffer.filled])
        offsets = pa.array(buffer.offsets, pa.int32()).buffers()[1]
        encoded = pa.Array.from_buffers(pa.binary(), count, [None, offsets, data])
        names = pa.array(
            [
                _file_name(source_id, stored)
                for source_id, stored in zip(index["source_id"].to_pylist(), buffer.stored, strict=True)
            ],
            pa.string(),
        )
        image = pa.StructArray.from_arrays([encoded, names], fields=list(writer.schema.field("image").type))
        columns = [image, *(index[name].combine_chunks() for name in writer.schema.names[1:])]
        writer.write_table(pa.Table.from_arrays(columns, schema=writer.schema), row_group_size=count)
    buffer.clear()
    return index


def _file_name(source_id: str, stored: str) -> str:
    name = source_id.rpartition("/")[2]
    return name if stored != "pixels" else f"{os.path.splitext(name)[0]}.png"  # noqa: PTH122 - a name, not a path


def _index_rows(task: ShardTask, rows: pa.Table, digests: list[str], stored: list[str]) -> pa.Table:
    index = rows.select(_ROW_COLUMNS)
    index = index.append_column("content_sha256", pa.array(digests, pa.string()))
    index = index.append_column("stored", pa.array(stored, pa.string()))
    for name in task.columns:
        index = index.append_column(name, rows[name])
    return index
