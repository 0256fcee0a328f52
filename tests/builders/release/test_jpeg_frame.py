"""Frames and tables of JPEGs: what is taken without decoding is what Pillow decodes."""

import io
import struct

import datasets
import numpy as np
import pytest
from PIL import Image

from builders.demo.images import encode_image
from builders.release import images
from builders.release.jpeg import looks_whole, read_jpeg_header
from tests.builders.photographs import pieces
from tests.sentences import stops

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::PIL.Image.DecompressionBombWarning")

PIECE = pieces(1, 96, seed=5)[0]
FORMS = {
    "baseline": (PIECE, {}),
    "grey": (PIECE.convert("L"), {}),
    "cmyk": (PIECE.convert("CMYK"), {}),
    "optimized": (PIECE, {"optimize": True}),
    "progressive": (PIECE, {"progressive": True}),
    "restarts": (PIECE, {"restart_marker_blocks": 2}),
    "profile": (PIECE, {"icc_profile": bytes(300)}),
}


def encoded(form="baseline"):
    image, options = FORMS[form]
    return encode_image(image, "JPEG", **options)


def segment(marker, content=b""):
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def segments(data):
    """(marker, start, stop) of the contents of each segment, those between scans included."""
    found, position = [], 2
    while position < len(data) - 2:
        marker = data[position + 1]
        if data[position] == 0xFF and marker not in (0, 0xFF, *range(0xD0, 0xD8)):
            stop = position + 2 + int.from_bytes(data[position + 2 : position + 4])
            found.append((marker, position + 4, stop))
            position = stop
        else:
            position += 1
    return found


def changed(data, marker, at, content, which=0):
    """The JPEG with bytes overwritten in its n-th segment of a kind."""
    start = [start for kind, start, _ in segments(data) if kind == marker][which] + at
    return data[:start] + content + data[start + len(content) :]


def without(data, marker):
    for kind, start, stop in reversed(segments(data)):
        if kind == marker:
            data = data[: start - 4] + data[stop:]
    return data


def of_type(marker):
    data = encoded()
    start = data.index(b"\xff\xc0")
    return data[: start + 1] + bytes([marker]) + data[start + 2 :]


def of_layers(count, data=None):
    """With another number of components in the frame, whose length follows it."""
    data = encoded() if data is None else data
    (start, stop) = next((start, stop) for kind, start, stop in segments(data) if kind == 0xC0)
    layers = b"".join(bytes([number + 1, 0x11, 0]) for number in range(count))
    return data[: start - 4] + segment(0xC0, data[start : start + 5] + bytes([count]) + layers) + data[stop:]


def before_scan(data, *added):
    start = next(start for kind, start, _ in segments(data) if kind == 0xDA) - 4
    return data[:start] + b"".join(added) + data[start:]


def long_frame(data):
    start = data.index(b"\xff\xc0")
    return data[: start + 3] + b"\x12" + data[start + 4 : start + 19] + b"\0" + data[start + 19 :]


SOF0, DHT, SOS, DQT = 0xC0, 0xC4, 0xDA, 0xDB
HEIGHT, WIDTH, LAYERS, FIRST, SECOND = 1, 3, 5, 6, 9  # bytes of a frame's content (T.81, B.2.2)
ALL_ONES = bytes([0x00, 2, *bytes(15), 0, 1])  # two codes of one bit: the second consists of ones (C.2)
LARGE_DC = bytes([0x00, 1, *bytes(15), 16])

# Those of issue 38: frame types that libjpeg lacks, values that nothing decodes, and tables that are not there.
BROKEN = {
    **{f"precision-{bits}": changed(encoded(), SOF0, 0, bytes([bits])) for bits in (0, 2, 12, 16)},
    **{f"type-{marker:x}": of_type(marker) for marker in (0xC3, 0xC5, 0xC6, 0xC7, 0xC8)},
    **{f"type-{marker:x}": of_type(marker) for marker in (0xCB, 0xCD, 0xCE, 0xCF)},
    "hierarchical": before_scan(encoded(), segment(0xDE, encoded()[encoded().index(b"\xff\xc0") + 4 :][:15])),
    "no-height": changed(encoded(), SOF0, HEIGHT, b"\0\0"),
    "height-by-dnl": changed(encoded(), SOF0, HEIGHT, b"\0\0")[:-2] + segment(0xDC, b"\0\x60") + b"\xff\xd9",
    "no-width": changed(encoded(), SOF0, WIDTH, b"\0\0"),
    "no-layers": of_layers(0),
    "layers-said-to-be-0": changed(encoded(), SOF0, LAYERS, b"\0"),
    "2-layers": of_layers(2),
    "5-layers": of_layers(5),
    "255-layers": of_layers(255),
    "length-beyond-layers": long_frame(encoded()),
    "sampling-0-across": changed(encoded(), SOF0, FIRST + 1, b"\x01"),
    "sampling-0-down": changed(encoded(), SOF0, FIRST + 1, b"\x10"),
    "sampling-5": changed(encoded(), SOF0, FIRST + 1, b"\x51"),
    "sampling-15": changed(encoded(), SOF0, FIRST + 1, b"\xff"),
    "sampling-3-to-2": changed(encoded(), SOF0, FIRST + 1, b"\x31\x00\x02\x21"),
    "sampling-of-11-blocks": changed(encoded(), SOF0, FIRST + 1, b"\x44"),
    "quantization-absent": without(encoded(), DQT),
    "quantization-2-absent": changed(encoded(), SOF0, SECOND + 2, b"\x02"),
    "quantization-200": changed(encoded(), SOF0, SECOND + 2, b"\xc8"),
    "quantization-number-7": changed(encoded(), DQT, 0, b"\x07"),
    "quantization-cut": changed(encoded(), DQT, 0, b"\x10"),
    "huffman-number-9": changed(encoded(), DHT, 0, b"\x09"),
    "huffman-all-ones": changed(encoded(), DHT, 0, ALL_ONES),
    "huffman-too-many": changed(encoded(), DHT, 1, b"\xff" * 16),
    "huffman-large-dc": before_scan(encoded(), segment(DHT, LARGE_DC)),
    "huffman-cut": before_scan(encoded(), segment(DHT, bytes([0x00, 9, *bytes(15)]))),
    "huffman-of-7-chosen": changed(encoded(), SOS, 2, b"\x77"),
    "scan-of-another-component": changed(encoded(), SOS, 1, b"\x09"),
    "scan-of-one-component-twice": changed(encoded(), SOS, 3, b"\x01"),
    "scan-of-9-components": changed(encoded(), SOS, 0, b"\x09"),
    "two-frames": before_scan(encoded(), segment(SOF0, encoded()[encoded().index(b"\xff\xc0") + 4 :][:15])),
    "second-whole-scan": encoded()[:-2] + encoded()[encoded().index(b"\xff\xda") :],
    "restart-interval-of-3-bytes": before_scan(encoded(), segment(0xDD, b"\0\0\0")),
    "reserved-segment": before_scan(encoded(), segment(0xF0, b"x")),
    "progression-backwards": changed(encoded("progressive"), SOS, 3, b"\x3f\x01", which=1),
    "progression-to-64": changed(encoded("progressive"), SOS, 3, b"\x01\x40", which=1),
    "progression-of-dc-and-ac": changed(encoded("progressive"), SOS, 7, b"\x00\x05", which=0),
    "progression-shift-14": changed(encoded("progressive"), SOS, 9, b"\x0e", which=0),
    "progression-refines-by-2": changed(encoded("progressive"), SOS, 5, b"\x31", which=1),
    "progression-without-table": changed(encoded("progressive"), SOS, 2, b"\x03", which=1),
    "sides-above-libjpegs": changed(encoded("grey"), SOF0, HEIGHT, b"\xff\xff\x00\x08"),
    "jfif-of-5-bytes": encoded()[:2] + segment(0xE0, b"JFIF\0") + encoded()[2:],
    "photoshop-cut": encoded()[:2] + segment(0xED, b"Photoshop 3.0\x008BIM\x03\xed") + encoded()[2:],
    "profile-cut": encoded()[:2] + segment(0xE2, b"ICC_PROFILE\0\1") + encoded()[2:],
}
ABOVE_MOST_PIXELS = changed(encoded("grey"), SOF0, HEIGHT, b"\x27\x10\x27\x11")  # 10,000 x 10,001

# Rare, and decoded: arithmetic codes, tables of Motion JPEG that libjpeg has itself, 16 bits of quantization.
RARE = {
    "huffman-absent": without(encoded(), DHT),
    "height-said-again": encoded()[:-2] + segment(0xDC, b"\0\0") + b"\xff\xd9",
    "arithmetic-conditioning": before_scan(encoded(), segment(0xCC, b"\0\x10")),
    "extended": of_type(0xC1),
    "foreign-segment": encoded()[:2] + segment(0xEB, b"anything") + encoded()[2:],
    "photoshop": encoded()[:2] + segment(0xED, b"Photoshop 3.0\x00" + bytes(20)) + encoded()[2:],
}


def whole(data):
    header = read_jpeg_header(data)
    return header is not None and looks_whole(memoryview(data), header)


def pixels_of_datasets(data):
    try:
        return np.asarray(datasets.Image().decode_example({"bytes": data, "path": None}))
    except images.DECODE_ERRORS:
        return None


@pytest.mark.parametrize("name", BROKEN)
def test_a_frame_or_table_that_nothing_decodes_is_refused_without_being_asked_to_decode(name):
    assert pixels_of_datasets(BROKEN[name]) is None
    for decode in (False, True):
        with pytest.raises(images.UnreadableImageError):
            images.check_image(BROKEN[name], decode=decode)


def test_a_jpeg_of_more_pixels_than_any_source_has_is_refused_by_its_header():
    for decode in (False, True):
        with stops(images.UnreadableImageError, "10,001", "10,000"):
            images.check_image(ABOVE_MOST_PIXELS, decode=decode)


@pytest.mark.parametrize("name", RARE)
def test_what_is_rare_and_decodes_is_kept(name):
    assert pixels_of_datasets(RARE[name]) is not None
    assert images.check_image(RARE[name]) is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("quality", [1, 50, 95])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_what_pillow_writes_is_taken_without_decoding(form, quality, subsampling):
    image, options = FORMS[form]
    assert whole(encode_image(image, "JPEG", **options, quality=quality, subsampling=subsampling))


@pytest.mark.parametrize(
    ("counts", "are_codes"),
    [
        ([0, 1, 5, 1, 1, 1, 1, 1, 1], True),  # table K.3 of T.81
        ([1, 1, 1, 1], True),
        ([2], False),  # 0 and 1, and no code may have ones alone
        ([1, 2], False),
        ([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2], False),
        ([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], True),
        ([3], False),
        ([0, 4], False),
        ([0, 3, 2], False),
        ([0, 3, 1], True),
    ],
)
def test_codes_by_their_lengths(counts, are_codes):
    """Assigned by hand as in figure C.2 of T.81."""
    table = bytes([0x00, *counts, *bytes(16 - len(counts)), *bytes(sum(counts))])
    assert whole(before_scan(encoded(), segment(DHT, table))) == are_codes


def mutated(generator, data, places):
    """A few bytes of segments overwritten by values that are small, large, or one bit off."""
    damaged = bytearray(data)
    for _ in range(generator.integers(1, 4)):
        at = int(generator.choice(places))
        values = [*range(6), 0x10, 0x11, 0x12, 0x21, 0x41, 0x44, 0xFF, int(generator.integers(256))]
        damaged[at] = generator.choice([*values, damaged[at] ^ 1 << int(generator.integers(8))])
    return bytes(damaged)


def mutations_taken(count, seed):
    """Of mutated headers, how many are taken without change; fails if `datasets` does not decode one of these."""
    generator, taken = np.random.default_rng(seed), 0
    small = PIECE.resize((32, 24))
    exif = Image.Exif()
    exif[0x0110] = "camera"
    files = [encode_image(small.convert(image.mode), "JPEG", **options) for image, options in FORMS.values()]
    files += [encode_image(small, "JPEG", exif=exif.tobytes())]
    files += [files[0][:2] + segment(0xED, b"Photoshop 3.0\x008BIM\x03\xed\0\0\0\0\0\x10" + bytes(16)) + files[0][2:]]
    places = [[at for _, start, stop in segments(data) for at in range(start - 4, stop)] for data in files]
    for _ in range(count):
        number = int(generator.integers(len(files)))
        data = mutated(generator, files[number], places[number])
        try:
            is_taken = images.check_image(data) is None
        except images.UnreadableImageError:
            continue
        if is_taken:
            assert pixels_of_datasets(data) is not None, data.hex()
            taken += 1
    return taken


def test_what_is_taken_decodes():
    assert mutations_taken(1500, seed=0) > 600


@pytest.mark.slow
def test_what_is_taken_decodes_of_many():
    assert mutations_taken(60_000, seed=1) > 24_000


def test_a_check_leaves_what_was_read_of_a_header_as_it_was():
    """Or a second look would know the tables that stand between scans before the first scan."""
    data = encoded("progressive")
    first, *_, last = [start for kind, start, _ in segments(data) if kind == DHT]
    header = read_jpeg_header(data)
    tables = set(header.read.huffman)
    assert looks_whole(memoryview(data), header) and looks_whole(memoryview(data), header)
    assert header.read.huffman == tables and first < header.scan < last


def test_the_arithmetic_codes_of_libjpeg_are_left_to_pillow():
    """Only the frame says that it has such codes, for Pillow writes none; how Pillow was built decides."""
    data = of_type(0xC9)
    assert not whole(data)
    decodes = pixels_of_datasets(data) is not None
    if decodes:
        assert images.check_image(data) is None
    else:
        with pytest.raises(images.UnreadableImageError):
            images.check_image(data)
    assert Image.open(io.BytesIO(data)).size == PIECE.size
