"""The PNG encoder against Pillow's decoder."""

import io
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from builders import png


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


def test_noise_grows_by_no_more_than_the_file_format_asks():
    pixels = np.random.default_rng(0).bytes(32 * 32 * 3)
    # A filter byte a row, 57 bytes of signature and chunks, and zlib's own header, blocks and checksum.
    assert len(png.encode(pixels, 32, 32)) <= 3072 + 32 + 57 + len(zlib.compress(b"")) + 16
