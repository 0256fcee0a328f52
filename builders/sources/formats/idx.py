"""Reads the idx files of MNIST: a number that gives type and dimensions, the sizes, and the bytes.

All numbers are big-endian: two bytes of zero, the type (8 for bytes), the number of dimensions, then 32 bits for each
size (LeCun, Cortes and Burges, "The MNIST database of handwritten digits", at the end of the page).

Tested by `tests/builders/sources/datasets/test_mnist.py`.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Sequence
from typing import IO

import numpy as np
import numpy.typing as npt

_BYTES = 8
_LARGEST = 1 << 28
"""Bytes of a file at most (ours). MNIST's training images have 47,040,016."""


class IdxError(ValueError):
    """A file is no idx file of bytes; the message says in a few words why not."""


def read_header(file: IO[bytes], dimensions: int) -> tuple[int, ...]:
    """Return the sizes of an array of bytes with some dimensions; the bytes follow."""
    head = _bytes(file, header_size(dimensions))
    kind, found, *sizes = (
        struct.unpack(f">BB{dimensions}I", head[2:]) if len(head) == header_size(dimensions) else (0, 0)
    )
    if head[:2] != b"\0\0" or (kind, found) != (_BYTES, dimensions):
        raise IdxError(f"it begins with {head[:4].hex(' ') or 'nothing'}")
    if math.prod(sizes) > _LARGEST:
        raise IdxError(f"it would have {' x '.join(f'{size:,}' for size in sizes)} bytes")
    return tuple(sizes)


def header_size(dimensions: int) -> int:
    """Return the bytes before an array's."""
    return 4 + 4 * dimensions


def read_array(file: IO[bytes], dimensions: int) -> npt.NDArray[np.uint8]:
    """Return an array of bytes with some dimensions, which ends the file."""
    sizes = read_header(file, dimensions)
    content = _bytes(file, math.prod(sizes) + 1)
    _require(len(content), sizes)
    return np.frombuffer(content, np.uint8).reshape(sizes)


def check_length(file: IO[bytes], sizes: Sequence[int]) -> None:
    """Refuse a file that has fewer or more bytes than its header announces; it is one whose end can be sought."""
    _require(file.seek(0, os.SEEK_END) - header_size(len(sizes)), sizes)


def _require(found: int, sizes: Sequence[int]) -> None:
    announced = math.prod(sizes)
    if found != announced:
        raise IdxError(
            f"it has {'more' if found > announced else 'fewer'} than the {announced:,} bytes that it announces"
        )


def _bytes(file: IO[bytes], count: int) -> bytes:
    try:
        return file.read(count)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise IdxError(f"it cannot be read as gz: {error}") from error
