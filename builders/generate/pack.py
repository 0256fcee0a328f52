"""Writes the images of a batch into its pack, and builds their record.

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
from builders.release.schema import Column, Value

_ENCODED_TOGETHER = 8 * 1024 * 1024
"""Bytes of pixels of images of equal size that are encoded at once; encoding takes four times as much memory."""


class PackWriter:
    """Writes the images of a batch in order; consecutive images of equal size are encoded together.

    Args:
        sink: the pack, open for writing.
        rows: number of images.
        columns: the generator's columns.
    """

    def __init__(self, sink: RawIOBase, rows: int, columns: Sequence[Column]) -> None:
        self._sink, self._columns = sink, columns
        self._pending: list[tuple[int, npt.NDArray[np.uint8]]] = []
        self._next = 0
        self._sizes, self._digests, self._reasons = [0] * rows, [""] * rows, [""] * rows
        self._values: dict[str, list[Value | None]] = {column.name: [None] * rows for column in columns}

    def add(self, generated: Generated) -> None:
        """Add the next image, or the reason why there is none.

        Raises:
            ValueError: the values are not those of the generator's columns.
        """
        number = self._next
        self._next += 1
        if generated.pixels is None:
            self._reasons[number] = generated.reason
            return
        if set(generated.values) != set(self._values):
            raise ValueError(f"the values {list(generated.values)} are not those of the columns {list(self._values)}")
        for name, value in generated.values.items():
            self._values[name][number] = value
        if self._pending:
            first = self._pending[0][1]
            if first.shape != generated.pixels.shape or len(self._pending) * first.nbytes >= _ENCODED_TOGETHER:
                self._flush()
        self._pending.append((number, generated.pixels))

    def add_all(self, pixels: npt.NDArray[np.uint8]) -> None:
        """Add the next images, all of one size and without values; shape (n, height, width, 3)."""
        self._flush()
        self._write(range(self._next, self._next + len(pixels)), pixels)
        self._next += len(pixels)

    def record(self, inputs: Sequence[str]) -> pa.Table:
        """Write the last images and return the record of all; `inputs` are the digests of their inputs."""
        self._flush()
        columns = [self._sizes, self._digests, self._reasons, inputs, *self._values.values()]
        schema = record_schema(self._columns)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    @property
    def digests(self) -> Sequence[str]:
        """Digests over the pixels of all images written so far."""
        return self._digests

    def _flush(self) -> None:
        if self._pending:
            numbers, pixels = zip(*self._pending, strict=True)
            self._pending = []
            self._write(numbers, np.stack(pixels))

    def _write(self, numbers: Sequence[int], pixels: npt.NDArray[np.uint8]) -> None:
        encoded = png.encode(pixels)
        for number, digest in zip(numbers, images.rgb_sha256(pixels), strict=True):
            self._sizes[number], self._digests[number] = encoded.shape[1], digest
        _write_whole(self._sink, encoded.reshape(-1).data)


def _write_whole(sink: RawIOBase, data: memoryview) -> None:
    # One call on an unbuffered file may write a part only: on Linux at most 2 GB, or as much as fits on the disk.
    while len(data):
        data = data[sink.write(data) or 0 :]
