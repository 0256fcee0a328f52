"""Numbers of single images against Pillow's encoder, NumPy and hand computations."""

import io
import math

import numpy as np
import pytest
from PIL import Image

from builders.audit.measures import HEADER_NUMBERS, PIXEL_NUMBERS, estimated_quality, header_numbers, pixel_numbers
from builders.demo.images import encode_image


def encoded(pixels, form, **options):
    return encode_image(Image.fromarray(pixels), form, **options)


def noise(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def header(data):
    return dict(zip(HEADER_NUMBERS, header_numbers(data), strict=True))


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_every_quality_of_libjpeg_is_found_again(mode):
    pixels = noise(16, 16) if mode == "RGB" else noise(16, 16)[..., 0]
    qualities = [header(encoded(pixels, "JPEG", quality=quality))["jpeg_quality"] for quality in range(1, 101)]
    assert qualities == list(range(1, 101))


def test_another_table_gets_the_nearest_quality():
    # Halfway down libjpeg's table for 50, which is table K.1 of T.81 as it stands, one step is off.
    with Image.open(io.BytesIO(encoded(noise(16, 16), "JPEG", quality=50))) as image:
        table = list(image.quantization[0])
    assert table[:8] == [16, 11, 10, 16, 24, 40, 51, 61]  # the first row of table K.1
    table[32] += 1
    assert estimated_quality(table) == 50


def test_header_numbers_by_hand():
    png = encoded(noise(10, 20), "PNG")
    numbers = header(png)
    assert (numbers["width"], numbers["height"], numbers["aspect"], numbers["jpeg"]) == (20, 10, 2, 0)
    assert numbers["bytes_per_pixel"] == len(png) / 200
    assert math.isnan(numbers["jpeg_quality"])
    assert header(encoded(noise(10, 20), "JPEG"))["jpeg"] == 1


@pytest.mark.parametrize(("orientation", "size"), [(1, (20, 10)), (3, (20, 10)), (6, (10, 20)), (8, (10, 20))])
def test_width_and_height_are_those_of_the_upright_image(orientation, size):
    exif = Image.Exif()
    exif[274] = orientation
    numbers = header(encoded(noise(10, 20), "JPEG", exif=exif))
    assert (numbers["width"], numbers["height"]) == size


def test_the_header_is_enough_for_its_numbers():
    data = encoded(noise(200, 200), "JPEG", quality=80)
    assert header(data[: len(data) // 2])["jpeg_quality"] == 80  # the second half of the pixels is missing


def test_pixel_numbers_against_numpy():
    pixels = noise(7, 13)
    numbers = dict(zip(PIXEL_NUMBERS, pixel_numbers(Image.fromarray(pixels)), strict=True))
    for channel, colour in enumerate(("red", "green", "blue")):
        assert numbers[f"mean_{colour}"] == pytest.approx(pixels[..., channel].mean())
        assert numbers[f"variance_{colour}"] == pytest.approx(pixels[..., channel].var())


def test_a_grey_image_has_three_equal_channels_and_a_plain_one_no_variance():
    numbers = dict(zip(PIXEL_NUMBERS, pixel_numbers(Image.new("L", (3, 5), 77)), strict=True))
    assert [numbers[f"mean_{colour}"] for colour in ("red", "green", "blue")] == [77, 77, 77]
    assert [numbers[f"variance_{colour}"] for colour in ("red", "green", "blue")] == [0, 0, 0]
    assert numbers["total_variation"] == 0
