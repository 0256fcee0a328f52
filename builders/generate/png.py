"""A PNG encoder for small generated images, which leaves compression to Parquet.

Pillow's encoder takes 200 to 300 µs for a 32 x 32 image, most of it for filters and zlib. This one takes 15 µs: it
filters every row against the one above and stores the result uncompressed. Parquet's zstd then compresses a page of
such images at once, in 14 µs per image and to 7 % more bytes than Pillow's PNGs (on patches of photographs; `python -m
benchmarks.building.cifar` measures a whole build). Readers see no difference.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

_EIGHT_BIT_RGB = (8, 2, 0, 0, 0)
"""Bit depth, colour type, compression, filter method, no interlacing (PNG specification, section 11.2.1)."""
_FILTER_UP = 2


def encode(images: npt.NDArray[np.uint8]) -> list[bytes]:
    """Encode RGB images of shape (n, height, width, 3), with sides of at least 1, as files of equal size."""
    count, height, width, channels = images.shape
    rows = images.reshape(count, height, width * channels)
    filtered = np.empty((count, height, width * channels + 1), np.uint8)
    filtered[:, :, 0] = _FILTER_UP
    filtered[:, 0, 1:] = rows[:, 0]
    np.subtract(rows[:, 1:], rows[:, :-1], out=filtered[:, 1:, 1:])
    head = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, *_EIGHT_BIT_RGB))
    end = _chunk(b"IEND", b"")
    return [head + _chunk(b"IDAT", zlib.compress(image, 0)) + end for image in filtered]


def _chunk(kind: bytes, data: bytes) -> bytes:
    # A chunk's checksum covers its type and its data (PNG specification, section 5.3).
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
