"""What can be seen of a JPEG without decoding it, on pieces of photographs."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from builders.demo.images import encode_image
from builders.release import images, jpeg
from builders.release.jpeg import has_hole, looks_whole, read_jpeg_header
from tests.builders.photographs import pieces
from tests.sentences import stops

PIECE = pieces(1, 240, seed=3)[0]
FORMS = {
    "baseline": (PIECE, {}),
    "optimized": (PIECE, {"optimize": True}),
    "progressive": (PIECE, {"progressive": True}),
    "restarts": (PIECE, {"restart_marker_blocks": 2}),
    "full-colour": (PIECE, {"subsampling": 0, "quality": 97}),
    "grey": (PIECE.convert("L"), {}),
    "grey-progressive": (PIECE.convert("L"), {"progressive": True}),
    "cmyk": (PIECE.convert("CMYK"), {}),
    "comment": (PIECE, {"comment": b"\xff\xd8\xff\xd9 inside"}),
    "profile": (PIECE, {"icc_profile": bytes(range(256)) * 600}),
}


def encoded(form="baseline"):
    image, options = FORMS[form]
    return encode_image(image, "JPEG", **options)


def whole(data):
    header = read_jpeg_header(data)
    return header is not None and looks_whole(memoryview(data), header)


def overwritten(data, at, content):
    return data[:at] + content + data[at + len(content) :]


def pillow_decodes(data):
    try:
        Image.open(io.BytesIO(data)).load()
    except (OSError, SyntaxError):
        return False
    return True


@pytest.mark.parametrize("form", FORMS)
def test_whole_images_need_no_decoding(form, monkeypatch):
    data = encoded(form)
    assert whole(data)
    monkeypatch.setattr(images, "decode_or_mend", lambda _: pytest.fail("decoded"))
    assert images.check_image(data) is None


@pytest.mark.parametrize("form", FORMS)
def test_the_header_says_where_things_are(form):
    data = encoded(form)
    header = read_jpeg_header(data)
    progressive = form.endswith("progressive")
    assert header.frame == (0xC2 if progressive else 0xC0)
    # The end of the first scan's segment: its coefficients, from and to, and their bits (B.2.3, table B.3).
    assert data[header.scan - 3 : header.scan] == (b"\0\0\1" if progressive else b"\0\x3f\0")
    first, last = header.components
    assert (last - first) // 2 == len(FORMS[form][0].getbands())
    assert header.blocks == []


def test_what_a_header_says_does_not_depend_on_the_image_before():
    """Of images that begin alike up to the scan or but for their size, or shorter or longer, whole and cut.

    A frame header has a marker, two bytes of its length and one of its precision before height and width (B.2.2).
    """
    data = [encoded(form) for form in FORMS]
    for each in data[:4]:
        frame = each.index(b"\xff\xc2" if each is data[2] else b"\xff\xc0") + 5
        for sides in ((0, 9), (9, 0), (1, 1), (65_500, 65_500), (65_501, 1), (1, 65_501), (300, 4)):
            data.append(overwritten(each, frame, struct.pack(">HH", *sides)))
    data += [overwritten(each, len(each) - 20, b"\0\0") for each in data] + [
        each[:n] for each in data for n in (3, 300)
    ]
    alone = []
    for each in data:
        jpeg._last.clear()
        alone.append(read_jpeg_header(each))
    order = np.random.default_rng(0).integers(0, len(data), 500)
    assert all(read_jpeg_header(data[number]) == alone[number] for number in order)


def test_an_exif_block_is_found():
    exif = Image.Exif()
    exif[0x0110] = "camera"
    data = encode_image(PIECE, "JPEG", exif=exif.tobytes())
    start, stop = read_jpeg_header(data).blocks[0]
    assert data[start : start + 2] == b"\xff\xe1"
    assert data[start + 4 : stop] == exif.tobytes()


BASELINE = encoded()
HALF = len(BASELINE) // 2
SCAN = read_jpeg_header(BASELINE).scan


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8\xff\xd9",
        b"\x89PNG" + BASELINE,
        BASELINE[:-2],
        BASELINE + b"\0",
        BASELINE + b"\xff\xd9",  # the end stands twice
        BASELINE[:40] + b"\xff\xd9",  # cut inside the tables
        overwritten(BASELINE, 60, bytes(300)),  # zeros over the tables
        overwritten(BASELINE, HALF, b"\xff\x05"),
        overwritten(BASELINE, HALF, b"\xff\xd8"),  # another image begins
        overwritten(BASELINE, HALF, b"\xff\xc0\x00\x11"),  # another frame
        overwritten(BASELINE, HALF, b"\xff\xda\xff\xff"),  # a segment beyond the end
        overwritten(BASELINE, HALF, np.random.default_rng(0).bytes(4096)),
        overwritten(BASELINE, HALF, bytes(4096)),
        overwritten(BASELINE, HALF, bytes(512)),
        BASELINE[:HALF] + BASELINE,  # two images run together
    ],
)
def test_what_speaks_against_a_whole_image(data):
    assert not whole(data)


def test_what_passes_as_the_docstring_says_although_it_is_damaged():
    cut = BASELINE[:HALF].rstrip(b"\xff") + b"\xff\xd9"
    text = overwritten(BASELINE, HALF, b"<html>not found</html>" * 20)
    for data in (cut, text):
        assert whole(data)
        assert pillow_decodes(data)  # so decoding does not tell, either


@pytest.mark.parametrize("form", ["baseline", "optimized", "full-colour", "grey", "cmyk", "restarts"])
@pytest.mark.parametrize("zeros", [383, 4096])  # the shortest that is always seen, and a block of a disk
@pytest.mark.parametrize("decode", [False, True])
def test_zeros_in_place_of_image_data_are_told_although_pillow_decodes_them(form, zeros, decode):
    data = encoded(form)
    middle = (read_jpeg_header(data).scan + len(data) - zeros) // 2
    damaged = overwritten(data, middle, bytes(zeros))
    assert has_hole(damaged, read_jpeg_header(damaged))
    assert pillow_decodes(damaged) or form == "restarts"
    with stops(images.UnreadableImageError):
        images.check_image(damaged, decode=decode)


def test_zeros_before_the_end_are_filling():
    filled = BASELINE[:-2] + bytes(5000) + BASELINE[-2:]
    assert images.check_image(filled) is None


@pytest.mark.parametrize("options", [{"optimize": True}, {"progressive": True}])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_zeros_of_a_flat_picture_are_meant(mode, options):
    image = Image.new(mode, (2400, 2400), "white")
    image.paste(PIECE.convert(mode), (1000, 1000))
    for picture in (image, Image.new(mode, (4000, 4000), "white")):
        data = encode_image(picture, "JPEG", quality=40, **options)
        assert images.check_image(data) is None
    assert bytes(256) in data  # there are such runs in sound files


def test_damage_anywhere_ends_in_an_answer_and_never_in_another_error():
    generator = np.random.default_rng(1)
    for form in ("baseline", "progressive", "restarts"):
        data = encoded(form)
        for _ in range(300):
            at, size = int(generator.integers(len(data) - 8)), int(generator.integers(1, 8))
            damaged = overwritten(data, at, generator.bytes(size))
            cut = damaged[: int(generator.integers(len(data)))] + b"\xff\xd9"
            for variant in (damaged, cut):
                header = read_jpeg_header(variant)
                if header is not None:
                    has_hole(variant, header)
                    looks_whole(memoryview(variant), header)


def test_of_random_damage_to_image_data_most_is_seen_that_decoding_sees():
    """Overwriting 2 KB with other data: seen by an impossible marker in nearly all cases where Pillow sees it."""
    generator = np.random.default_rng(2)
    detected = missed = 0
    for _ in range(100):
        at = int(generator.integers(SCAN, len(BASELINE) - 2050))
        damaged = overwritten(BASELINE, at, generator.bytes(2048))
        if not pillow_decodes(damaged):
            detected += not whole(damaged)
            missed += whole(damaged)
    assert detected + missed > 50
    assert missed == 0
