"""Kinds of difference of one image, on photographs-like pictures made of noise of the spectrum of photographs."""

import io

import numpy as np
import pytest
from PIL import Image, ImageFilter

from builders.doctor.kinds import explain, image_facts


def picture(seed=0, size=(320, 240)):
    """Smooth coloured noise, whose spectrum falls as that of photographs does."""
    rng = np.random.default_rng(seed)
    total = np.zeros((size[1], size[0], 3))
    for scale in (4, 16, 64):
        small = rng.uniform(0, 255, (size[1] // scale + 2, size[0] // scale + 2, 3)).astype(np.uint8)
        total += np.asarray(Image.fromarray(small).resize(size, Image.Resampling.BICUBIC), float) * scale
    return Image.fromarray(np.clip(total / 84, 0, 255).astype(np.uint8))


def encoded(image, form="JPEG", **options):
    data = io.BytesIO()
    image.save(data, form, **({"quality": 92} if form == "JPEG" else {}) | options)
    return data.getvalue()


ORIGINAL = encoded(picture())
DECODED = Image.open(io.BytesIO(ORIGINAL)).convert("RGB")


def blurred():
    image = DECODED.copy()
    box = (100, 80, 164, 144)
    image.paste(image.crop(box).filter(ImageFilter.GaussianBlur(8)).point(lambda level: 255 - level), box)
    return encoded(image, "PNG")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (encoded(DECODED, "PNG"), "other bytes"),
        (encoded(DECODED, quality=50), "re-encoded"),
        (encoded(DECODED, "WEBP", quality=60), "re-encoded"),
        (encoded(DECODED.resize((160, 120), Image.Resampling.LANCZOS)), "resized"),
        (encoded(DECODED.resize((256, 256))), "resized"),
        (encoded(DECODED.convert("L")), "grey"),
        (encoded(DECODED.convert("L").convert("RGB")), "grey"),
        (encoded(DECODED.convert("L").resize((160, 120))), "resized"),
        (encoded(DECODED.transpose(Image.Transpose.ROTATE_90)), "turned"),
        (encoded(DECODED.transpose(Image.Transpose.FLIP_LEFT_RIGHT)), "turned"),
        (blurred(), "part of the picture"),
        (encoded(picture(1)), "other picture"),
        (encoded(picture(2, (200, 300))), "other picture"),
        (ORIGINAL[: len(ORIGINAL) // 2], "truncated"),
        (b"no image", "unreadable"),
        (b"", "unreadable"),
    ],
)
def test_each_kind(data, kind):
    assert explain(data, ORIGINAL)[0] == kind


def test_arrays_are_pictures_too():
    pixels = np.asarray(DECODED)
    assert explain(pixels, encoded(DECODED, "PNG"))[0] == "other bytes"
    assert explain(255 - pixels, pixels)[0] == "other picture"


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_facts_of_a_jpeg_are_those_that_pillow_gives(mode):
    data = encoded(DECODED.convert(mode))
    facts = image_facts(data)
    opened = Image.open(io.BytesIO(data))
    assert (facts.format, facts.width, facts.height, facts.channels) == (
        opened.format,
        *opened.size,
        len(opened.getbands()),
    )
    assert facts.problem == ""


def test_a_hole_in_a_jpeg_is_seen():
    data = ORIGINAL[:4000] + bytes(4000) + ORIGINAL[8000:]
    assert image_facts(data).problem == "truncated"
