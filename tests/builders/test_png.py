"""The PNG encoder against Pillow's decoder."""

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from builders import png
from tests.builders.photographs import pieces


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 256]))
def test_pillow_reads_back_the_same_pixels(width, height, seed, levels):
    pixels = np.random.default_rng(seed).integers(0, levels, (height, width, 3), dtype=np.uint8)
    image = Image.open(io.BytesIO(png.encode(pixels.tobytes(), width, height)))
    assert (image.format, image.mode, image.size) == ("PNG", "RGB", (width, height))
    image.verify()  # checks every chunk's CRC
    image = Image.open(io.BytesIO(png.encode(pixels.tobytes(), width, height)))
    assert np.array_equal(np.asarray(image), pixels)


def test_bytes_that_do_not_fill_the_image_are_refused():
    with pytest.raises(ValueError, match="reshape"):
        png.encode(bytes(11), 2, 2)


def test_a_file_is_larger_than_its_pixels_by_what_the_format_asks():
    pixels = np.random.default_rng(0).bytes(32 * 32 * 3)
    # 8 bytes of signature, chunks of 12 + 13, 12 and 12 bytes, a filter byte a row; zlib's header (2), block (5) and
    # checksum (4).
    assert len(png.encode(pixels, 32, 32)) == 3072 + 8 + 25 + 12 + 12 + 32 + 11


def test_parquets_compression_makes_up_for_storing():
    stored, packed = [], 0
    for piece in pieces(300, 32, seed=3):
        buffer = io.BytesIO()
        piece.save(buffer, "PNG")
        packed += len(buffer.getvalue())
        stored.append(png.encode(piece.tobytes(), 32, 32))
    assert len(pa.Codec("zstd").compress(b"".join(stored), asbytes=True)) < 1.1 * packed
