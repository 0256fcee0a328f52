"""The PNG encoder against Pillow's decoder."""

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from builders.demo.images import encode_image
from builders.generate import png
from tests.builders.photographs import pieces


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 256]))
def test_pillow_reads_back_the_same_pixels(width, height, seed, levels):
    pixels = np.random.default_rng(seed).integers(0, levels, (3, height, width, 3), dtype=np.uint8)
    for encoded, expected in zip(png.encode(pixels), pixels, strict=True):
        check(encoded.tobytes(), expected)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 256]))
def test_pillow_reads_back_the_same_grey_pixels(width, height, seed, levels):
    pixels = np.random.default_rng(seed).integers(0, levels, (3, height, width), dtype=np.uint8)
    for encoded, expected in zip(png.encode(pixels), pixels, strict=True):
        check(encoded.tobytes(), expected)


def check(encoded, pixels):
    image = Image.open(io.BytesIO(encoded))
    assert (image.format, image.mode, image.size) == ("PNG", "RGB" if pixels.ndim == 3 else "L", pixels.shape[1::-1])
    image.verify()  # checks every chunk's CRC
    image = Image.open(io.BytesIO(encoded))
    assert np.array_equal(np.asarray(image), pixels)


# A stored block has at most 65,535 bytes; rows of 3 bytes a pixel and one for the filter.
@pytest.mark.parametrize("width, height", [(21_844, 1), (21_845, 1), (5_461, 4), (300, 200), (7, 9_000)])
def test_data_that_fills_or_exceeds_a_block_is_divided(width, height):
    pixels = np.random.default_rng(0).integers(0, 256, (1, height, width, 3), dtype=np.uint8)
    check(png.encode(pixels)[0].tobytes(), pixels[0])


def test_no_images_are_no_bytes():
    assert len(png.encode(np.zeros((0, 32, 32, 3), np.uint8))) == 0


def test_a_file_is_larger_than_its_pixels_by_what_the_format_asks():
    pixels = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), dtype=np.uint8)
    # 8 bytes of signature, chunks of 12 + 13, 12 and 12 bytes, a filter byte a row; zlib's header (2), block (5) and
    # checksum (4).
    assert png.encode(pixels).shape[1] == 3072 + 8 + 25 + 12 + 12 + 32 + 11


def test_parquets_compression_makes_up_for_storing():
    stored, packed = [], 0
    for piece in pieces(300, 32, seed=3):
        packed += len(encode_image(piece, "PNG"))
        stored.append(png.encode(np.asarray(piece)[np.newaxis]).tobytes())
    assert len(pa.Codec("zstd").compress(b"".join(stored), asbytes=True)) < 1.1 * packed
