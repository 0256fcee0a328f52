"""Reads the index of a split, and the images of some rows, one row group of a shard at a time."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from builders.errors import BuildError, first_line, one_line
from builders.release import images
from builders.release.entries import SplitEntry
from builders.release.remarks import collect_remarks
from builders.release.schema import KNOWN_COLUMNS, ROLES, arrow_schema, without_values
from builders.storage.parquet import UNREADABLE, image_batch_rows, open_parquet, open_streamed, read_rows, row_batches

Rows = npt.NDArray[np.int64]
Made = TypeVar("Made")

_DIGEST = hashlib.sha256().digest_size

_TYPES = {field.name: field.type for field in arrow_schema(())}


class UndecodableError(BuildError):
    """An image of a release does not decode; has the row's id, and the reason in a few words."""

    def __init__(self, message: str, row_id: str, reason: str) -> None:
        super().__init__(message, row_id, reason)  # as an exception is pickled
        self.row_id, self.reason = row_id, reason

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class RowGroup:
    """Some rows of one row group of a shard, ascending; `first` is the place of the first among all rows read.

    `digests` are the SHA-256 that the index lists of the rows' images, one behind the other, and zeros of images whose
    digest is of pixels: these are not compared.
    """

    path: Path
    group: int
    rows: tuple[int, ...]
    first: int
    digests: bytes = b""

    def _images(self) -> Iterator[bytes]:
        numbers, start = np.array(self.rows, np.int64), 0
        with _opened(self.path, ["image"]) as opened:
            for batch in row_batches(opened, image_batch_rows(opened, self.group), ["image"], [self.group]):
                in_batch = numbers[(numbers >= start) & (numbers < start + batch.num_rows)] - start
                for data in pc.struct_field(batch.column(0).take(pa.array(in_batch)), "bytes"):
                    yield data.as_py() or b""  # empty only in a damaged shard
                start += batch.num_rows
                if start > numbers[-1]:  # a few rows of a large row group are read without the rest
                    return

    def each(self, make: Callable[[bytes], Made]) -> Iterator[Made]:
        """Yield for each row what `make`, a function that decodes an image, makes of its encoded image."""
        for number, data in enumerate(self._images()):
            try:
                with collect_remarks():  # the build told of them
                    decoded = make(data)
            except images.DECODE_ERRORS as error:
                raise self._undecodable(self.rows[number], one_line(images.decode_reason(error))) from error
            listed = self.digests[number * _DIGEST : (number + 1) * _DIGEST]
            if any(listed) and hashlib.sha256(data).digest() != listed:
                raise BuildError(
                    f"The image {self._place(self.rows[number])[0]} is not the one that its index lists. Check the "
                    "release with python -m hf_scripts.verify."
                )
            yield decoded

    def _place(self, row: int) -> tuple[str, str]:
        """Return how messages name a row, and its id."""
        with _opened(self.path, ["id"]) as opened:
            row_id = opened.read_row_group(self.group, columns=["id"])["id"][row].as_py()
        return f"{one_line(row_id)} (row {row:,} of row group {self.group} in {self.path})", row_id

    def _undecodable(self, row: int, reason: str) -> UndecodableError:
        where, row_id = self._place(row)
        return UndecodableError(
            f"The image {where} does not decode ({reason}). Check the release with python -m hf_scripts.verify.",
            row_id,
            reason,
        )


def rgb_images(root: Path, key: str, split: SplitEntry, rows: Rows) -> Iterator[Image.Image]:
    """Yield the images of some rows of a split in RGB; `rows` are ascending row numbers."""
    for group in row_groups(root, key, split, rows):
        yield from group.each(lambda data: images.decode(data).convert("RGB"))


def read_index(root: Path, split: SplitEntry, names: Sequence[str]) -> pa.Table:
    """Read columns of a split's index, which is the file that the manifest lists.

    Only nullable columns lack values, and roles are known.
    """
    path = root / split.index.path
    with _opened(path, names, sha256=split.index.sha256) as opened:
        if (count := opened.metadata.num_rows) != split.rows:
            raise BuildError(
                f"{path} has {count:,} rows, not {split.rows:,} as manifest.json says. Build the release again."
            )
        table = read_rows(opened, names)
        table.validate(full=True)  # text that is not UTF-8
    if empty := without_values(table, tuple(KNOWN_COLUMNS.values())):
        raise _wrong(path, f"has rows without a value in the column {empty[0]}")
    if "role" in names and not pc.all(pc.is_in(table["role"], pa.array(range(len(ROLES)))), min_count=0).as_py():
        raise _wrong(path, "has roles that no release has")
    return table


@contextlib.contextmanager
def _opened(path: Path, names: Sequence[str], *, sha256: str = "") -> Iterator[pq.ParquetFile]:
    """Open a file of the release that has some columns, of which rows are read, or with its `sha256` all of them."""
    try:
        with open_parquet(path, "whole", sha256=sha256) if sha256 else open_streamed(path) as opened:
            schema = opened.schema_arrow
            for name in names:
                kind = schema.field(name).type if name in schema.names else None
                if kind is None or kind != _TYPES.get(name, kind):
                    raise BuildError(f"{path} has no column {name} of a release. Build or download the release again.")
            yield opened
    except UNREADABLE as error:
        raise unreadable_file(path, error) from error


def row_groups(root: Path, key: str, split: SplitEntry, rows: Rows) -> list[RowGroup]:
    """Find the row groups that contain some rows of a split, given by ascending numbers; `key` is for messages."""
    if not split.data:
        raise BuildError(f"{key} has no images in {root}, only an index. Build it without --index-only.")
    listed, none = read_index(root, split, ["content_sha256", "stored"]).take(pa.array(rows)), "0" * 2 * _DIGEST
    stored = zip(listed["content_sha256"].to_pylist(), listed["stored"].to_pylist(), strict=True)
    try:
        digests = bytes.fromhex("".join(none if kind in images.BY_PIXELS else digest for digest, kind in stored))
    except ValueError as error:
        raise _wrong(root / split.index.path, "has a content_sha256 that is no SHA-256") from error
    groups, start, first = [], 0, 0
    for file in split.data:
        path = root / file.path
        with _opened(path, ["image"]) as opened:
            metadata = opened.metadata
        for group in range(metadata.num_row_groups):
            stop = start + metadata.row_group(group).num_rows
            in_group = rows[(rows >= start) & (rows < stop)] - start
            if len(in_group):
                of_group = digests[first * _DIGEST : (first + len(in_group)) * _DIGEST]
                groups.append(RowGroup(path, group, tuple(in_group.tolist()), first, of_group))
            start, first = stop, first + len(in_group)
    if first != len(rows):
        raise BuildError(
            f"The shards of {key} have {start:,} rows, fewer than its index. Check the release with python -m "
            f"hf_scripts.verify {root}."
        )
    return groups


def unreadable_file(path: Path, error: Exception) -> BuildError:
    """Return the error for a file of the release that cannot be read."""
    return BuildError(f"Cannot read {path} ({first_line(error)}). Check the release with python -m hf_scripts.verify.")


def _wrong(path: Path, reason: str) -> BuildError:
    return BuildError(f"{path} {reason}. Check the release with python -m hf_scripts.verify.")
