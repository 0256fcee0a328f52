"""Reads all images of a copy once, and keeps of each its digest and what its header says.

What is finished is kept in a folder outside the copy until all is, so that an interrupted run goes on there. Tested by
`tests/builders/doctor/test_doctor.py`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.doctor.copies import Copy
from builders.doctor.kinds import Facts, Picture, array_facts, as_array, decoded, image_facts
from builders.errors import BuildError, one_line
from builders.executors.base import ONE_CORE, Executor, Meter, Progress, Resources
from builders.release.images import UnreadableImageError
from builders.release.remarks import collect_remarks
from builders.sources.base import ARRAY_SHAPES, IN_PLACE, LARGEST_IMAGE, Container, Encoding, Int64, Shape
from builders.sources.unpack import UNPACKERS
from builders.storage.byte_ranges import Reader
from builders.storage.files import byte_count, open_buffered, read_regular
from builders.storage.parquet import UNREADABLE, arrow_rows, write_arrow

_TOGETHER = 2000
"""Images of a task (ours): half a second of reading, and little to do again after an interruption."""

_HEAD = 1 << 16
"""Bytes of an image that `--quick` reads at its start: behind EXIF blocks, which have at most as many."""

_TAIL = 2

_COUNTED = 64
"""Images of which the bar learns together (ours)."""

SCHEMA = pa.schema(
    [
        ("digest", pa.binary()),
        ("format", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("channels", pa.int8()),
        ("orientation", pa.int8()),
        ("problem", pa.string()),
        ("reason", pa.string()),
        ("bytes", pa.int64()),
    ]
)
"""The columns of `Facts`. A digest is empty where the bytes were not read or could not be."""


@dataclass(frozen=True)
class ScanTask:
    """A `builders.executors.base.Task` that reads some images of files, of ranges of files, or of one container."""

    root: str
    how: Container
    form: Encoding
    arrays: Shape
    files: tuple[str, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    quick: bool
    kept: str
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> pa.Table:
        """Read the images, or what an earlier run kept of them while the files were the same."""
        path = Path(self.kept, f"{self._key()}.arrow") if self.kept else None
        if path is not None and (kept := _kept(path, len(self.files))) is not None:
            progress(len(self.files), 0)
            return kept
        with collect_remarks():
            facts = self._facts(progress)
        columns = zip(*facts, strict=True) if facts else [[] for _ in SCHEMA.names]
        table = pa.table([list(column) for column in columns], SCHEMA)
        if path is not None:
            write_arrow(path, table)
        return table

    def _key(self) -> str:
        """Return a digest of what is read: paths, and the sizes and times of the files."""
        lines = [repr((self.root, self.how, self.form, self.offsets, self.sizes, self.quick))]
        for file in dict.fromkeys(self.files):
            try:
                status = os.stat(f"{self.root}{os.sep}{file}")  # noqa: PTH116  a Path costs more than the call
                # Whoever puts another file in its place can keep size and time, but not the time of that change.
                lines.append(f"{file} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}")
            except OSError as error:
                lines.append(f"{file} {error.errno}")
        return hashlib.sha256("\n".join([*lines, *self.files]).encode("utf-8", "surrogateescape")).hexdigest()

    def _facts(self, progress: Progress) -> list[Facts]:
        found: list[Facts] = []
        size = 0
        for facts, read in self._of_arrays() if self.form in ARRAY_SHAPES else self._of_files():
            found.append(facts)
            size += read
            if len(found) % _COUNTED == 0:
                progress(_COUNTED, size)
                size = 0
        progress(len(found) % _COUNTED, size)
        return found

    def _of_files(self) -> Iterator[tuple[Facts, int]]:
        """Yield the facts of each image, and its bytes that were read."""
        if self.how not in IN_PLACE:
            for data in _unpacked(self.root, self.how, self.files[0], self.offsets):
                yield self._of(bytes(data), len(data)), len(data)
            return
        start = f"{self.root}{os.sep}"
        with Reader() as ranges:
            for file, offset, size in zip(self.files, self.offsets, self.sizes, strict=True):
                try:
                    if self.quick:
                        yield self._of_ends(start + file, offset, size), _HEAD
                        continue
                    whole = size < 0
                    data = (
                        read_regular(start + file, LARGEST_IMAGE) if whole else ranges.read(start + file, offset, size)
                    )
                except (OSError, BuildError) as error:
                    reason = one_line(getattr(error, "strerror", "") or error, 100)
                    yield Facts(b"", "", 0, 0, 0, 1, "unreadable", reason), 0
                else:
                    yield self._of(data, len(data)), len(data)

    def _of_ends(self, path: str, offset: int, size: int) -> Facts:
        """Return the facts of an image of which only start and end are read."""
        with open_buffered(path) as file:
            if size < 0:
                size = byte_count(file)
            file.seek(offset)
            data = file.read(min(size, _HEAD))
            file.seek(offset + max(0, size - _TAIL))
            end = file.read(_TAIL)
        facts = self._of(data, size)
        if size > _HEAD and facts.format == "JPEG" and end != b"\xff\xd9" and not facts.problem:
            return facts._replace(problem="truncated", reason="it does not end with the end marker")
        return facts._replace(digest=b"")

    def _of(self, data: bytes, size: int) -> Facts:
        """Return the facts of an image of so many bytes, of which `data` are the first."""
        if not self.arrays:
            return image_facts(data, digested=len(data) == size)._replace(bytes=size)
        try:
            return array_facts(as_array(decoded(data), self.arrays)[np.newaxis])[0]
        except UnreadableImageError as error:
            return Facts(b"", "", 0, 0, 0, 1, "unreadable", one_line(error, 100))

    def _of_arrays(self) -> Iterator[tuple[Facts, int]]:
        for pixels in _arrays(self.root, self.how, self.form, self.files, self.offsets, self.sizes):
            yield array_facts(pixels[np.newaxis])[0], pixels.size


def _kept(path: Path, rows: int) -> pa.Table | None:
    """Read what an earlier run kept; None if it did not, or if a power cut left a damaged file."""
    try:
        with arrow_rows(path, 0, rows) as table:
            table.validate(full=True)
            kept = pa.table(table.to_pydict(), SCHEMA)  # the file is closed behind it
    except (*UNREADABLE, ValueError):
        return None
    return kept if kept.num_rows == rows else None


def scan_copy(
    copy: Copy, executor: Executor, meter: Meter, *, quick: bool = False, kept: Path | None = None
) -> pa.Table:
    """Read the images of a copy; returns a row of `SCHEMA` for each of its rows.

    `kept` is a folder for what is finished before the end; None keeps nothing.
    """
    order, tasks = [], []
    for numbers, task in _tasks(copy, quick=quick, kept="" if kept is None else str(kept)):
        order.append(numbers)
        tasks.append(task)
    with meter.step("reading", copy.rows.num_rows) as advance:
        tables = executor.run(tasks, advance)
    if not tables:
        return pa.table({name: pa.array([], kind) for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)})
    back = np.argsort(np.concatenate(order), kind="stable")
    return pa.concat_tables(tables).take(pa.array(back)).combine_chunks()


def _tasks(copy: Copy, *, quick: bool, kept: str) -> Iterator[tuple[Int64, ScanTask]]:
    arrays = copy.source.arrays if copy.source else ()
    rows = copy.rows.select(["how", "form", "file", "offset", "size"])
    names = rows["file"].to_pylist()
    offsets, sizes = rows["offset"].to_numpy(), rows["size"].to_numpy()
    start = 0
    for partition in copy.partitions:
        count = partition.table.num_rows
        numbers = np.arange(start, start + count)
        start += count
        # The rows of a partition are in the order of its files, but for archives and containers.
        if partition.how != "file":
            by_file: dict[str, list[int]] = {}
            for number in numbers.tolist():
                by_file.setdefault(names[number], []).append(number)
            parts = [np.array(each)[np.argsort(offsets[each], kind="stable")] for each in by_file.values()]
        else:
            parts = [numbers]
        whole = partition.how not in IN_PLACE
        for part in parts:
            for first in range(0, len(part), len(part) if whole else _TOGETHER):
                chosen = part[first : len(part) if whole else first + _TOGETHER]
                yield (
                    chosen,
                    ScanTask(
                        str(copy.root),
                        partition.how,
                        partition.form,
                        arrays,
                        tuple(names[number] for number in chosen.tolist()),
                        tuple(offsets[chosen].tolist()),
                        tuple(sizes[chosen].tolist()),
                        quick and not arrays,
                        kept,
                    ),
                )


def pictures(copy: Copy, numbers: Sequence[int]) -> Iterator[Picture | None]:
    """Yield some images of a copy in the given order, as they are stored; None for one that cannot be read."""
    table = copy.rows.take(pa.array(numbers, pa.int64())).select(["how", "form", "file", "offset", "size"])
    for row in table.to_pylist():
        how, form, file = row["how"], row["form"], row["file"]
        try:
            if form in ARRAY_SHAPES:
                yield next(_arrays(str(copy.root), how, form, [file], [row["offset"]], [row["size"]]))
            elif how in IN_PLACE:
                with open_buffered(copy.root / file) as opened:
                    opened.seek(row["offset"])
                    yield opened.read(LARGEST_IMAGE if row["size"] < 0 else row["size"])
            else:
                yield bytes(next(_unpacked(str(copy.root), how, file, [row["offset"]])))
        except (OSError, BuildError):
            yield None


def _unpacked(root: str, how: Container, file: str, offsets: Sequence[int]) -> Iterator[Picture]:
    for batch in UNPACKERS[how](Path(root, file), np.array(offsets, np.int64)):
        yield from batch


def _arrays(
    root: str, how: Container, form: Encoding, files: Sequence[str], offsets: Sequence[int], sizes: Sequence[int]
) -> Iterator[npt.NDArray[np.uint8]]:
    shape = ARRAY_SHAPES[form]
    if how not in IN_PLACE:
        for data in _unpacked(root, how, files[0], offsets):
            yield np.frombuffer(data, np.uint8).reshape(shape)
        return
    opened, name = None, ""
    try:
        for file, offset, size in zip(files, offsets, sizes, strict=True):
            if opened is None or file != name:
                if opened is not None:
                    opened.close()
                opened, name = open_buffered(Path(root, file)), file
            opened.seek(offset)
            pixels = np.frombuffer(opened.read(size), np.uint8)
            yield (
                np.ascontiguousarray(pixels.reshape(3, *shape[:2]).transpose(1, 2, 0))
                if form == "planar32"
                else pixels.reshape(shape)
            )
    finally:
        if opened is not None:
            opened.close()
