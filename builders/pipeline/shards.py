"""Writes shards. A shard depends only on its slice of the plan, so any process may write it, in any order and twice.

Bytes go from the file into one buffer and from there into Parquet, without becoming Python objects. Worker processes
import this module, so it imports little: NumPy, pyarrow, Pillow and the standard library.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from builders.duplicates.checked import CheckedImages, Found
from builders.duplicates.distance import Images, scaled
from builders.duplicates.pixels import PixelWriter, pixel_writer
from builders.errors import BuildError
from builders.executors.base import ONE_CORE, Progress, Resources, once_per_worker
from builders.generate.batches import Batch
from builders.release import images
from builders.release.remarks import ImageRemarks, collect_remarks
from builders.release.schema import COMMON, PIXEL_DIGEST, PLAN, demo_metadata, is_demo_schema
from builders.sources.broken import known_broken
from builders.storage.byte_ranges import Reader
from builders.storage.files import atomic_path
from builders.storage.kept_tables import write_kept
from builders.storage.parquet import arrow_rows
from builders.storage.paths import as_path
from builders.storage.sealed_files import SealedWriter, read_residuals

SHARD_BYTES = 512 * 1024 * 1024
"""Image bytes in one shard: close to the 500 MB that suit the Hub's viewer and streaming readers."""

ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Image bytes in one row group. The Hub's practice is at most 100 MB; a third of that keeps a worker under 300 MB,
because the buffer and the writer's pages each hold one group."""

_LEAST_BYTES, _MEAN_BYTES = ROW_GROUP_BYTES // 4, ROW_GROUP_BYTES // 4
"""Row groups end where an image's digest says, so that they end at the same images after some were withdrawn: behind
the least size after another 8 MiB on average, which leaves 5 % of them (e^-3) to be cut at `ROW_GROUP_BYTES`."""

# The writer checks only every so many rows whether a page (1 MB) is full. With its default of 1,024, a whole row group
# of images becomes one page, and a reader could not use the page index to fetch a single image.
_ROWS_BETWEEN_PAGE_CHECKS = 8

_RECORD = b"shard_record"


@dataclass(frozen=True)
class ShardTask:
    """A `builders.executors.base.Task` that writes one shard.

    `plan` is an Arrow IPC file with the columns `PLAN`, `EXPECTED`, `PLACES` and `MADE` of
    `builders.release.schema` and the config's own; the shard is its rows `start:stop`, with `size` bytes of images.
    Rows of images that were generated say `stored` of their bytes; `source` is for images that are copied. `roots`
    maps the names in `root` to folders. `data` is the file for the images (None: index only), `record` the file for
    the index rows and what `ShardRecord` says of the shard, `schema` that of the data. `sealed` is the file for the
    images' sealed residuals, None if they are not sealed. `pixels` is the file for the images as they are compared
    (`builders.duplicates.pixels`), None if they are not. `contents` and `copy` are those of `ReadPlan`, for the
    record. `checked` are images that were decoded before.
    """

    plan: Path
    start: int
    stop: int
    size: int
    roots: dict[str, str]
    data: Path | None
    record: Path
    schema: pa.Schema
    decode: bool
    drop_unreadable: bool
    stored: images.Stored = "source"
    sealed: Path | None = None
    pixels: Path | None = None
    contents: str = ""
    copy: str = ""
    checked: CheckedImages | None = None
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> WrittenShard:
        """Read, check, hash and write the images of the shard.

        The data file, the pixels, the sealed residuals and then the record are written under temporary names and
        renamed, so that the shard is complete once its record exists.

        Raises:
            BuildError: an image is missing or unreadable (unless `drop_unreadable`).
            OSError: a file cannot be written.
        """
        dropped: list[tuple[str, str]] = []
        with arrow_rows(self.plan, self.start, self.stop) as rows:
            with (
                self._data_writer() as (sink, writer),
                contextlib.nullcontext() if self.pixels is None else pixel_writer(self.pixels) as pixels,
                Reader() as reader,
                Reader() as beside,
                collect_remarks() as remarks,
            ):
                found = once_per_worker(self.checked).find if self.checked is not None else None
                known = found and functools.partial(found, reader=beside, decoded=self.decode)
                groups = self.groups(rows, reader, progress, dropped, remarks, pixels, known)
                index_rows = [self._write_group(rows, group, writer) for group in groups]
            size, digest = (sink.size, sink.digest.hexdigest()) if sink is not None else (0, "")
            sealed = self._write_sealed(rows, self.sealed) if self.sealed is not None else 0
            index = pa.concat_tables(
                index_rows or [self._index_rows(rows.slice(0, 0), GroupImages(np.empty(0, np.uint8)))]
            )
        record = ShardRecord(
            index.num_rows, size, digest, self.decode, tuple(dropped), sealed, self.contents, self.copy
        )
        metadata = {_RECORD: json.dumps(asdict(record)).encode()}
        write_kept(self.record, index.replace_schema_metadata(metadata))
        return WrittenShard(record, remarks)

    def groups(
        self,
        rows: pa.Table,
        reader: Reader,
        progress: Progress,
        dropped: list[tuple[str, str]],
        remarks: ImageRemarks,
        compared: PixelWriter | None = None,
        known: Callable[[str], Found | None] | None = None,
    ) -> Iterator[GroupImages]:
        """Yield the images of the shard in row groups; each row group overwrites the data of the one before.

        Those that are left out as unreadable are added to `dropped`, with id and reason, and what decoders remark on
        each is assigned to it in `remarks`. Each image goes to `compared` as it is compared with others. `known` says
        what an earlier check found of an image, given by the digest of its bytes.
        """
        group = GroupImages(np.empty(ROW_GROUP_BYTES, np.uint8))  # a bytearray would be zeroed first
        columns = ("id", "expected_sha256", "content_sha256", "unreadable")
        ids, expected, digests, failed = (rows[name].to_pylist() for name in columns)
        # A published image was readable to its publisher, so only its digest is compared.
        broken = {number for number in known_broken(rows) if not expected[number]}
        places = image_places(rows, self.roots)
        reader.expect(place for place, reason in zip(places, failed, strict=True) if not reason)
        for number, (path, offset, size) in enumerate(places):
            if failed[number]:
                dropped.append((ids[number], failed[number]))
                progress(1, 0)
                continue
            if group.numbers and group.filled + size > ROW_GROUP_BYTES:
                yield group
                group = GroupImages(group.data)
            view = group.room(size)
            reader.read_into(view, path, offset)
            progress(1, size)
            digest, stored, pixels, image, mended = digests[number], self.stored, "", None, None
            small: Images | None = None
            if self.stored == "source":
                digest = hashlib.sha256(view).hexdigest()
                try:
                    if known is not None and (found := known(digest)) is not None:
                        pixels, small = found
                    else:
                        image, mended = images.checked(view, decode=self.decode or number in broken)
                        pixels = images.pixel_sha256(image) if self.decode and image is not None else ""
                except images.UnreadableImageError as error:
                    if not self.drop_unreadable and number not in broken:
                        raise images.unreadable_image(rows, number, path, error) from error
                    dropped.append((ids[number], str(error)))
                    continue
                finally:
                    if remarks.heard:
                        remarks.assign(images.image_place(rows, number, path))
                if mended is not None:
                    view = group.room(len(mended))
                    view[:] = mended
                    digest, stored = hashlib.sha256(view).hexdigest(), "metadata_removed"
            if expected[number] and digest != expected[number]:
                raise _other_content(rows, number, path, digest)
            if compared is not None:
                try:
                    small = self._as_compared(view, image) if small is None else small
                except images.DECODE_ERRORS as error:
                    if self.data is None:
                        raise images.unreadable_image(rows, number, path, error) from error
                    # Whoever compares the shard finds it again, and says so (`builders.pipeline.run`).
                    compared.give_up()
                else:
                    compared.add(small, digest)
                remarks.heard = ""  # of images that are not checked by decoding them, nothing is said
            group.keep(number, len(view), digest, stored, pixels)
            if ends_group(group.filled, len(view), digest):
                yield group
                group = GroupImages(group.data)
        if group.numbers:
            yield group

    def _as_compared(self, view: memoryview, image: Image.Image | None) -> Images:
        """Return an image as it is compared, (32, 32, 3); it is decoded unless it is given."""
        if image is None:
            # Of an index alone nobody reads the bytes, which need not decode as they are.
            decode = images.decode if self.data is not None else lambda data: images.decode_or_mend(data)[0]
            image = decode(bytes(view))
        return scaled(image)

    @contextlib.contextmanager
    def _data_writer(self) -> Iterator[tuple[_HashingFile | None, pq.ParquetWriter | None]]:
        if self.data is None:
            yield None, None
            return
        with atomic_path(self.data) as temporary, temporary.open("wb", buffering=0) as raw:
            sink = _HashingFile(raw)
            with pq.ParquetWriter(
                pa.PythonFile(sink, mode="w"),
                self.schema,
                # Source files are compressed already; generated PNGs are not (`builders.generate.png`).
                compression={"image.bytes": "none" if self.stored == "source" else "zstd", "image.path": "zstd"}
                | dict.fromkeys(self.schema.names[1:], "zstd"),
                use_dictionary=["role", "label", "class_id", "class_name", "source", "stored"],
                write_statistics=[name for name in self.schema.names if name != "image"],
                write_page_index=True,
                write_batch_size=_ROWS_BETWEEN_PAGE_CHECKS,
            ) as writer:
                yield sink, writer

    def _write_group(self, rows: pa.Table, group: GroupImages, writer: pq.ParquetWriter | None) -> pa.Table:
        """Write a row group and return its index rows."""
        index = self._index_rows(rows.take(pa.array(group.numbers, pa.int64())), group)
        if writer is not None:
            count, offsets = len(group.numbers), pa.array(group.offsets, pa.int32())
            data = pa.py_buffer(group.data.data[: group.filled])
            encoded = pa.Array.from_buffers(pa.binary(), count, [None, offsets.buffers()[1], data])
            names = [source_id.rpartition("/")[2] for source_id in index["source_id"].to_pylist()]
            for number, stored in enumerate(group.stored):
                if stored in images.BY_PIXELS:
                    names[number] = f"{os.path.splitext(names[number])[0]}.png"  # noqa: PTH122 - a name, not a path
            fields = list(writer.schema.field("image").type)
            image = pa.StructArray.from_arrays([encoded, pa.array(names, pa.string())], fields=fields)
            columns = {name: index[name].combine_chunks() for name in index.column_names}
            writer.write_table(pa.table(columns | {"image": image}, writer.schema), row_group_size=count)
        return index

    def _index_rows(self, rows: pa.Table, group: GroupImages) -> pa.Table:
        planned = [name for name in self.schema.names if name not in COMMON or name in PLAN]
        values = {name: rows[name] for name in planned}
        values["content_sha256"] = pa.array(group.digests, pa.string())
        values["stored"] = pa.array(group.stored, pa.string())
        index = pa.table(values, pa.schema([field for field in self.schema if field.name != "image"]))
        if self.decode and self.stored == "source":
            index = index.append_column(PIXEL_DIGEST, pa.array(group.pixels, pa.string()))
        return index

    def _write_sealed(self, rows: pa.Table, target: Path) -> int:
        """Write the sealed residuals of the shard and return the bytes of the file.

        A batch's rows stand together in the shard's plan and in the batch's order.
        """
        readable = rows.filter(pc.equal(rows["unreadable"], ""))
        packs = zip(readable["root"].to_pylist(), readable["file"].to_pylist(), strict=True)
        row_ids = set(readable["id"].to_pylist())
        with atomic_path(target) as temporary:
            with SealedWriter(temporary, demo_metadata(demo=is_demo_schema(self.schema))) as writer:
                for root, file in dict.fromkeys(packs):
                    for row_id, sealed in read_residuals(Batch(0, 0, as_path(self.roots[root]) / file).sealed):
                        if row_id in row_ids:
                            writer.add(row_id, sealed)
            return temporary.stat().st_size


@dataclass(frozen=True)
class ShardRecord:
    """What the record of a finished shard says in its metadata, beside the index rows.

    `bytes` and `sha256` are those of the data file (0 and empty without pixels), `sealed_bytes` those of the sealed
    residuals; `decoded` says whether every image was decoded; `dropped` has the row id and the reason of each image
    left out as unreadable; `contents` says what a person's own folders held, and `copy` from which containers the
    images were unpacked.
    """

    rows: int
    bytes: int
    sha256: str
    decoded: bool
    dropped: tuple[tuple[str, str], ...]
    sealed_bytes: int = 0
    contents: str = ""
    copy: str = ""


class WrittenShard(NamedTuple):
    """The record of a shard just written, and what decoders remarked on its images."""

    record: ShardRecord
    remarks: ImageRemarks


def record_of(rows: pa.Table) -> ShardRecord:
    """Return what a `ShardTask` recorded of its shard, given by the table of its record."""
    record = json.loads(rows.schema.metadata[_RECORD])
    return ShardRecord(**{**record, "dropped": tuple((image, reason) for image, reason in record["dropped"])})


def image_places(rows: pa.Table, roots: Mapping[str, str]) -> list[tuple[str, int, int]]:
    """Return path, offset and size of each image in some rows of a plan; `roots` has the folders by name."""
    columns = (rows[name].to_pylist() for name in ("root", "file", "offset", "size"))
    # A Path costs more than reading the file.
    return [(os.path.join(roots[root], file), *place) for root, file, *place in zip(*columns, strict=True)]  # noqa: PTH118


def _other_content(rows: pa.Table, number: int, path: str, digest: str) -> BuildError:
    return BuildError(
        f"The image {rows['id'][number]} is not the published one: its content_sha256 is {digest}, not "
        f"{rows['expected_sha256'][number]} ({images.image_place(rows, number, path)}). Give the edition that the "
        "publisher used."
    )


def ends_group(filled: int, size: int, digest: str) -> bool:
    """Whether a row group of `filled` bytes ends after an image, decided by the image's size and `content_sha256`.

    A uniform number from the digest is compared with the image's share of the mean size, so that the expected size
    does not depend on how large images are.
    """
    return filled >= _LEAST_BYTES and int(digest[:13], 16) / 16**13 < size / _MEAN_BYTES


@dataclass(eq=False)
class GroupImages:
    """The images of a row group as they are collected: their bytes end to end in `data`, and their columns.

    `numbers` are their rows in the shard's plan. `offsets` are the starts of the images in `data` and the end of the
    last one; `digests` and `stored` are the columns `content_sha256` and `stored`. `pixels` are digests over the
    pixels of images that were decoded to be checked.
    """

    data: npt.NDArray[np.uint8]
    numbers: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])
    digests: list[str] = field(default_factory=list)
    stored: list[images.Stored] = field(default_factory=list)
    pixels: list[str] = field(default_factory=list)

    @property
    def filled(self) -> int:
        """The number of bytes in use."""
        return self.offsets[-1]

    def room(self, size: int) -> memoryview:
        """Return the buffer for the next image; it grows if the image is larger than what is left."""
        if self.filled + size > len(self.data):
            grown = np.empty(self.filled + size, np.uint8)
            grown[: self.filled] = self.data[: self.filled]
            self.data = grown
        return self.data.data[self.filled : self.filled + size]

    def keep(self, number: int, size: int, digest: str, stored: images.Stored, pixels: str) -> None:
        """Keep the image whose bytes were just written into `room`."""
        self.numbers.append(number)
        self.offsets.append(self.filled + size)
        self.digests.append(digest)
        self.stored.append(stored)
        if pixels:
            self.pixels.append(pixels)


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
