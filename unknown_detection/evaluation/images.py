"""Reads the images of a split from a release's Parquet shards, and compares them with the digests of its rows.

Nothing is read through the cache of `datasets`, which knows a folder by its last name and its card. Whoever decodes an
image hashes it first, so what was not verified is still evaluated as its manifest describes it, or refused.

Tested by `tests/evaluation/features/test_content.py`.
"""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.release.images import BY_PIXELS, DECODE_ERRORS, decode, pixel_sha256
from builders.storage.parquet import UNREADABLE, open_parquet
from unknown_detection.evaluation.errors import EvaluationError, first_line
from unknown_detection.evaluation.files import VERIFY, require_regular

_COLUMN = "image.bytes"

_KEPT = 2
"""Row groups in memory, of some 16 MB each: threads may read on both sides of where one ends and the next begins."""


class SplitImages(Sequence[dict[str, Any]]):
    """Images of n rows: `images[number]` is a row, as a dictionary, with its decoded `image`.

    `rows` are the index of the split, which says what each image's digest is; `shards` are the files with its images,
    in order, `key` is `config/split`, and `name` that of the release, for messages. Raises `EvaluationError` if a
    shard cannot be read, or if there are more or fewer images than rows.
    """

    def __init__(self, rows: pa.Table, shards: Sequence[Path], key: str, name: str) -> None:
        self.rows = rows
        self._split = f"{key} in {name}"
        self._groups = [group for path in shards for group in _row_groups(path)]
        self._starts = [0, *itertools.accumulate(count for _, _, count in self._groups)]
        self._images: dict[int, pa.ChunkedArray] = {}
        if self._starts[-1] != len(rows):
            raise EvaluationError(
                f"The shards of {self._split} have {self._starts[-1]:,} images, but its index has {len(rows):,} rows. "
                f"{VERIFY}"
            )

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<{len(self):,} images of {self._split}>"

    def __getitem__(self, number: Any) -> Any:
        """Return a row by its number, with the decoded image; raises as `image`."""
        number = range(len(self))[number]
        (row,) = self.rows.slice(number, 1).to_pylist()
        return {"image": self.image(number), **row}

    def image(self, number: int) -> Image.Image:
        """Decode the image of a row; `EvaluationError` if it does not decode, or differs from the index's digest."""
        id_, stored, listed = (self.rows[name][number].as_py() for name in ("id", "stored", "content_sha256"))
        data = self._bytes(number)
        try:
            image = decode(data) if stored in BY_PIXELS else None
            digest = hashlib.sha256(data).hexdigest() if image is None else pixel_sha256(image)
            if digest == listed:
                return decode(data) if image is None else image
        except DECODE_ERRORS as error:
            raise EvaluationError(
                f"The image of row {id_} of {self._split} cannot be decoded: {first_line(error)}. {VERIFY}"
            ) from error
        raise EvaluationError(
            f"The image of row {id_} of {self._split} is another one: its digest is {digest[:12]}, but the index "
            f"lists {listed[:12]}. {VERIFY}"
        )

    def _bytes(self, number: int) -> bytes:
        """Read the stored bytes of an image, with those of its row group; empty where there are none."""
        group = bisect_right(self._starts, number) - 1
        images = self._images.get(group)
        if images is None:
            images = _read_images(*self._groups[group])
            # Replaced, not changed, for other threads.
            self._images = {**dict([*self._images.items()][1 - _KEPT :]), group: images}
        return images[number - self._starts[group]].as_py() or b""


def _row_groups(path: Path) -> list[tuple[Path, int, int]]:
    """Return the row groups of a shard: its path, their numbers, and how many rows each has."""
    require_regular(path)
    try:
        with open_parquet(path) as opened:
            kind = {field.name: field.type for field in opened.schema_arrow}.get("image", pa.null())
            if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
                raise pa.ArrowInvalid("it has no column image with bytes")
            if kind.field("bytes").type != pa.binary():
                raise pa.ArrowInvalid(f"its images are of the type {kind.field('bytes').type}, not binary")
            metadata = opened.metadata
            return [(path, number, metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _read_images(path: Path, group: int, count: int) -> pa.ChunkedArray:
    """Read the encoded images of a row group, in one thread: those of Arrow do not survive a fork."""
    try:
        with open_parquet(path) as opened:
            table = opened.read_row_group(group, columns=[_COLUMN], use_threads=False)
        if len(table) != count:
            raise pa.ArrowInvalid(f"row group {group} lacks {count - len(table):,} of the rows that it claims")
        return pc.struct_field(table["image"], "bytes")
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> EvaluationError:
    return EvaluationError(f"Cannot read {path} as Parquet: {first_line(error)}. {VERIFY}")
