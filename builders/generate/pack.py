"""Writes a batch's images into its pack and keeps what the record says of them.

Tested by `tests/builders/generate/test_task.py`.

Tested by `tests/builders/generate/test_task.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import RawIOBase

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.generate import png
from builders.generate.batches import record_schema
from builders.generate.contract import Generated
from builders.release import images
from builders.release.columns import Column, Value

_ENCODED_TOGETHER = 8 * 1024 * 1024
"""Bytes of pixels of equal size that are encoded at a time, which takes four times as much memory."""


class PackWriter:
    """Takes the images of a batch in order; those of one size in a row are encoded together.

    Args:
        sink: the pack.
        rows: number of images.
        columns: the generator's.
    """

    def __init__(self, sink: RawIOBase, rows: int, columns: Sequence[Column]) -> None:
        self._sink, self._columns = sink, columns
        self._waiting: list[tuple[int, npt.NDArray[np.uint8]]] = []
        self._next = 0
        self._sizes, self._digests, self._reasons = [0] * rows, [""] * rows, [""] * rows
        self._values: dict[str, list[Value | None]] = {column.name: [None] * rows for column in columns}

    def add(self, generated: Generated) -> None:
        """The next image, or the reason why there is none.

        Raises:
            ValueError: its values are not those of the generator's columns.
        """
        number = self._next
        self._next += 1
        if generated.pixels is None:
            self._reasons[number] = generated.reason
            return
        if set(generated.values) != set(self._values):
            raise ValueError(f"expected values for the columns {list(self._values)}, found {list(generated.values)}")
        for name, value in generated.values.items():
            self._values[name][number] = value
        if self._waiting:
            first = self._waiting[0][1]
            if first.shape != generated.pixels.shape or len(self._waiting) * first.nbytes >= _ENCODED_TOGETHER:
                self._flush()
        self._waiting.append((number, generated.pixels))

    def add_all(self, pixels: npt.NDArray[np.uint8]) -> None:
        """The next images, of one size and without values; shape (n, height, width, 3)."""
        self._flush()
        self._write(range(self._next, self._next + len(pixels)), pixels)
        self._next += len(pixels)

    def record(self, inputs: Sequence[str]) -> pa.Table:
        """What is known of all images, once the last of them is written; `inputs` are their inputs' digests."""
        self._flush()
        columns = [self._sizes, self._digests, self._reasons, inputs, *self._values.values()]
        schema = record_schema(self._columns)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    @property
    def digests(self) -> Sequence[str]:
        """The digests over the pixels of all images that were written."""
        return self._digests

    def _flush(self) -> None:
        if self._waiting:
            numbers, pixels = zip(*self._waiting, strict=True)
            self._waiting = []
            self._write(numbers, np.stack(pixels))

    def _write(self, numbers: Sequence[int], pixels: npt.NDArray[np.uint8]) -> None:
        encoded = png.encode(pixels)
        for number, digest in zip(numbers, images.rgb_sha256(pixels), strict=True):
            self._sizes[number], self._digests[number] = encoded.shape[1], digest
        _write_whole(self._sink, encoded.reshape(-1).data)


def _write_whole(sink: RawIOBase, data: memoryview) -> None:
    # An unbuffered file may take a part of it: on Linux at most 2 GB, or what the disk has room for.
    while len(data):
        data = data[sink.write(data) or 0 :]
