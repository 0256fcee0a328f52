import io
import struct
import subprocess
import sys

import datasets
import numpy as np
import PIL.Image
import pyarrow as pa
import pytest
from PIL import ExifTags, Image, features
from PIL.TiffImagePlugin import IFDRational

from builders.demo.images import ENCODERS, encode_image
from builders.generate.exact.resize import fixed_resize
from builders.release import images
from builders.release.jpeg import read_jpeg_header
from hf_scripts.checks.images import check_images
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.values import SplitFacts
from tests.builders.demo_sources import TROUBLES
from tests.fuzz.harness import run_cases
from tests.sentences import stops


def jpeg(size=(40, 30), seed=0, **options):
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    return encode_image(Image.fromarray(pixels), "JPEG", **options)


def decode_with_datasets(data):
    return datasets.Image().decode_example({"bytes": data, "path": None})


def exif_of(**tags):
    """A block with the tags of some names."""
    exif = Image.Exif()
    for name, value in tags.items():
        exif[ExifTags.Base[name]] = value
    return exif.tobytes()


@pytest.mark.parametrize(
    "data",
    [
        jpeg(),
        jpeg() + b"\0\0\0",  # which is decoded
        jpeg(exif=exif_of(Orientation=6)),
        jpeg(exif=exif_of(XResolution=IFDRational(72, 0))),  # a fraction without denominator, and nothing is turned
    ],
    ids=["whole", "bytes-after-its-end", "sound-exif", "fraction-without-denominator"],
)
def test_a_sound_jpeg_is_kept_as_it_is(data):
    assert images.check_image(data) is None


@pytest.mark.parametrize("size", [1000, 300])
def test_a_cut_jpeg_is_unreadable(size):
    with pytest.raises(images.UnreadableImageError, match=r"(?i)truncated"):
        images.check_image(jpeg()[:size])


@pytest.mark.parametrize("data", [b"", b"not an image at all", b"<html>404</html>"])
def test_other_bytes_are_unreadable(data):
    with pytest.raises(images.UnreadableImageError):
        images.check_image(data)


@pytest.mark.parametrize("decode", [False, True])
def test_damage_inside_a_table_is_seen_also_without_decoding(decode):
    sound = jpeg()
    # A Huffman table (marker FFC4) with 255 codes of every length cannot be.
    table = sound.index(b"\xff\xc4") + 5
    damaged = sound[:table] + b"\xff" * 16 + sound[table + 16 :]
    with pytest.raises(images.UnreadableImageError, match="broken data stream"):
        images.check_image(damaged, decode=decode)


@pytest.mark.parametrize("kind", sorted(kind for kind in ENCODERS if kind.startswith("exif-")))
@pytest.mark.parametrize("decode", [False, True])
def test_every_kind_of_broken_tag_beside_an_orientation_is_removed(kind, decode):
    """Also those that only some versions of Pillow fail on, so that a row's bytes do not depend on the version."""
    data = ENCODERS[kind](Image.open(io.BytesIO(jpeg())))
    mended = images.check_image(data, decode=decode)
    start, stop = read_jpeg_header(data).blocks[0]
    assert mended == data[:start] + data[stop:]
    assert read_jpeg_header(mended).blocks == []
    assert np.array_equal(np.asarray(decode_with_datasets(mended)), np.asarray(Image.open(io.BytesIO(data))))


def test_a_fraction_without_denominator_among_the_gps_tags_is_removed():
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8825)[2] = (5.0, IFDRational(1, 0), 0.0)
    data = jpeg(exif=exif.tobytes())
    assert images.check_image(data) is not None


@pytest.mark.parametrize("error", images.DECODE_ERRORS, ids=lambda error: error.__name__)
def test_build_and_verify_agree_on_what_does_not_decode(error, monkeypatch):
    class Broken:
        def __getattr__(self, name):
            raise error

    data = encode_image(Image.new("RGB", (40, 30)), "PNG")
    monkeypatch.setattr(PIL.Image, "open", lambda *_, **__: Broken())
    with pytest.raises(images.UnreadableImageError):
        images.check_image(data, decode=True)
    rows = pa.RecordBatch.from_pylist(
        [{"image": {"bytes": data, "path": "a.jpg"}, "stored": "source", "content_sha256": ""}]
    )
    problems = Problems()
    check_images(
        rows,
        "shard",
        0,
        problems,
        split=SplitFacts("bench/test", (), (), (), 0, False, False, frozenset()),
        decode=True,
    )
    assert any("datasets cannot decode the image" in line for line in problems.lines())


def outcome(decode, data):
    """The pixels of an image, or why it has none."""
    try:
        image = decode(data)
        return image.mode, image.size, image.tobytes()
    except images.DECODE_ERRORS as error:
        return images.decode_reason(error)


def opened(data):
    """By Pillow alone, of images without EXIF."""
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


@pytest.mark.parametrize(
    ("mode", "options", "is_plain"),
    [
        ("RGB", {}, True),
        ("RGB", {"subsampling": 0, "optimize": True}, True),
        ("RGB", {"subsampling": 1, "quality": 30, "restart_marker_rows": 1}, True),
        ("RGB", {"progressive": True}, True),
        ("RGB", {"keep_rgb": True}, True),
        ("RGB", {"icc_profile": bytes(200), "comment": b"of a test"}, True),
        ("L", {}, True),
        ("CMYK", {}, False),
        ("RGB", {"exif": exif_of(Make="of a test")}, False),
    ],
)
def test_a_plain_jpeg_is_given_to_the_decoder_at_once_and_has_the_pixels_of_others(
    mode, options, is_plain, monkeypatch
):
    """As Pillow opens it, also where it is cut or damaged: 100 changes of a byte, and every end."""
    data = encode_image(Image.open(io.BytesIO(jpeg((75, 53), seed=3))).convert(mode), "JPEG", **options)
    random = np.random.default_rng(0)
    damaged = [data[:stop] for stop in [*range(0, len(data), 397), *range(len(data) - 40, len(data))]]
    for place, value in zip(random.integers(0, len(data), 100), random.integers(0, 256, 100), strict=True):
        damaged.append(data[:place] + bytes([value]) + data[place + 1 :])
    seen = [outcome(images.decode, some) for some in [data, *damaged]]
    assert seen == [outcome(opened, some) for some in [data, *damaged]]
    monkeypatch.setattr(Image, "open", lambda _: pytest.fail("opened"))
    assert (images._plain_jpeg(data) is not None) == is_plain


@pytest.mark.parametrize("mode", ["L", "CMYK", "1", "LA", "P"])
def test_images_of_other_modes_are_kept_and_can_be_made_smaller(mode):
    form = "JPEG" if mode in ("L", "CMYK") else "PNG"
    data = encode_image(Image.open(io.BytesIO(jpeg((60, 45)))).convert(mode), form)
    assert images.check_image(data) is None
    assert images.check_image(data, decode=True) is None
    assert images.decode(data).mode == mode
    resized = fixed_resize(images.decode_or_mend(data)[0])
    assert (resized.mode, resized.size) == ("RGB", (32, 32))


def deep(mode, form):
    """A ramp of grey from 0 to 65,535, encoded."""
    values = np.linspace(0, 65_535, 48 * 36).reshape(36, 48)
    if mode == "I;16B":  # Pillow writes little-endian TIFF alone: the header, the values and all numbers turned around
        return big_endian(values.astype(">u2"))
    return encode_image(Image.fromarray(values.astype({"I;16": "u2", "I": "i4", "F": "f4"}[mode])), form)


def big_endian(values):
    """A TIFF of one strip whose numbers begin with the highest byte, by TIFF 6.0, section 2."""
    height, width = values.shape
    tags = {256: width, 257: height, 258: 16, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: values.nbytes}
    entries = b"".join(struct.pack(">HHII", tag, 4, 1, value) for tag, value in tags.items())
    pixels = values.tobytes()
    return b"MM" + struct.pack(">HI", 42, 8 + len(pixels)) + pixels + struct.pack(">H", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize(
    ("mode", "form"),
    [("I;16", "PNG"), ("I;16", "TIFF"), ("I;16B", "TIFF"), ("I", "PPM"), ("I", "TIFF"), ("F", "TIFF")],
)
def test_images_of_16_and_32_bits_are_refused(mode, form):
    """`datasets` gives them as they are, and their conversion to RGB, which comes next, is nearly all white."""
    data = deep(mode, form)
    image = datasets.Image().decode_example({"path": None, "bytes": data})
    assert image.mode == mode
    assert (np.asarray(image.convert("RGB")) == 255).mean() > 0.98
    for check in (images.check_image, images.decode_or_mend):
        with stops(images.UnreadableImageError, mode):
            check(data)


def test_the_largest_image_of_caltech256_is_no_bomb():
    """7,913 x 7,913 grey pixels; Pillow warns above 89 million and refuses above twice as many."""
    data = encode_image(Image.new("L", (7_913, 7_913), 200), "JPEG", optimize=True)
    assert images.check_image(data) is None
    assert images.decode_or_mend(data)[0].size == (7_913, 7_913)


def test_planted_troubles_decode_as_datasets_decodes_them(demo):
    for trouble in TROUBLES:
        data = (demo[trouble.source] / trouble.path).read_bytes()
        stored = images.check_image(data) or data
        image, expected = images.decode(stored), decode_with_datasets(stored)
        assert image.size == expected.size, trouble
        assert np.array_equal(np.asarray(image), np.asarray(expected)), trouble


def test_pixel_digest_ignores_the_encoder_and_sees_every_pixel():
    image = Image.effect_noise((20, 10), 30)
    stored = [encode_image(image, "PNG", compress_level=level) for level in (1, 9)]
    assert stored[0] != stored[1]
    assert images.content_sha256("pixels", stored[0]) == images.content_sha256("pixels", stored[1])
    image.putpixel((3, 3), (image.getpixel((3, 3)) + 1) % 256)
    assert images.pixel_sha256(image) != images.content_sha256("pixels", stored[0])


def test_pixel_digest_tells_shapes_and_modes_with_equal_bytes_apart():
    flat = [Image.new("L", (6, 2)), Image.new("L", (2, 6)), Image.new("P", (6, 2)), Image.new("RGB", (2, 2))]
    assert len({images.pixel_sha256(image) for image in flat}) == 4


def test_bombs_do_not_decode_in_time_and_memory():
    outcomes = run_cases("tests.fuzz.targets.images:image")
    assert {name: outcome for name, outcome in outcomes.items() if not outcome.sound} == {}
    for name, outcome in outcomes.items():
        if "50,000" in name or "65,500" in name or "2 billion" in name or "16,384" in name:
            assert outcome.kind == "refused", name
    assert "12,000 x 12,000 pixels, more than any image" in outcomes["PNG of 12,000 x 12,000 whole"].message
    # The picture is sound where its blocks are not: they are removed.
    assert outcomes["JPEG with 2,000 EXIF blocks"].kind == "value"


def test_all_metadata_of_many_blocks_is_removed_at_once():
    block = b"\xff\xe1" + struct.pack(">H", 60_002) + bytes(60_000)
    data = jpeg()
    assert images.check_image(data[:2] + 100 * block + data[2:]) == data
    assert images.check_image(data[:2] + block + data[2:]) is None


_WITHOUT_ROOM = """
import os, resource, sys
from pathlib import Path
from builders.release import images
from unknown_detection.terminal.shortages import shortage

def told(data, room):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20), resource.RLIM_INFINITY))
    try:
        images.pixel_sha256(images.checked(data, decode=True)[0])
        return "whole"
    except images.UnreadableImageError as error:
        return f"damaged: {error}"
    except Exception as error:
        return shortage(type(error)(str(error)))  # as it comes from a worker, without what it was raised from

for path in sys.argv[2:]:
    data = Path(path).read_bytes()
    for room in map(int, sys.argv[1].split(",")):
        if not os.fork():
            print(Path(path).name, room, told(data, room), flush=True)
            os._exit(0)
        os.wait()
"""


def told_without_room(paths, rooms):
    """What decoding each file came to with some room, in MiB, by file and room."""
    command = [sys.executable, "-c", _WITHOUT_ROOM, ",".join(map(str, rooms)), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert len(lines) == len(paths) * len(rooms), done
    return {(name, int(room)): told for name, room, told in lines}


_SAVED = {
    "plain.jpg": {},
    "turned.jpg": {"exif": exif_of(Orientation=6)},
    "progressive.jpg": {"progressive": True},
    "plain.png": {},
    "lossy.webp": {"method": 0},
    "packed.tif": {"compression": "tiff_lzw"},
    **({"of2000.jp2": {}} if features.check("jpg_2000") else {}),
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_an_image_for_which_memory_lacks_is_not_called_damaged(tmp_path):
    """Whoever believes it removes a good image. 4000 x 4000 pixels take 48 MB and up to 288; decoders that lack some
    of it know no such format, find a broken stream, or make no object."""
    for name, options in _SAVED.items():
        Image.new("RGB", (4000, 4000), "red").save(tmp_path / name, **options)
    rooms = (0, 50, 150, 2000)
    told = told_without_room([tmp_path / name for name in _SAVED], rooms)
    assert not {place: words for place, words in told.items() if words.startswith("damaged")}
    for name in _SAVED:
        assert told[name, 0].startswith("The memory does not suffice"), name
        assert told[name, 2000] == "whole"


def tiled_tiff(side, tile):
    """An LZW-packed TIFF of a grey image in one tile far larger than it (TIFF 6.0, page 66)."""
    data = bytes([0x80, 0x00, 0x20, 0x20])  # 9-bit codes: clear, 0, 257 for the end
    tags = [(256, 4, side), (257, 4, side), (258, 3, 8), (259, 3, 5), (262, 3, 1), (277, 3, 1)]
    tags += [(322, 4, tile), (323, 4, tile), (324, 4, 8), (325, 4, len(data))]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    header = struct.pack("<2sHI", b"II", 42, 8 + len(data))
    return header + data + struct.pack("<H", len(tags)) + entries + bytes(4)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_a_damaged_image_is_not_called_a_lack_of_memory(tmp_path):
    """Cut ones, and one of 64 x 64 pixels that asks for a tile of 900 million where 600 MiB are."""
    Image.new("RGB", (1000, 1000), "red").save(tmp_path / "a.webp")
    Image.new("RGB", (1000, 1000), "red").save(tmp_path / "a.png")
    for path in (tmp_path / "a.webp", tmp_path / "a.png"):
        path.write_bytes(path.read_bytes()[:-40])
    (tmp_path / "a.tif").write_bytes(tiled_tiff(64, 30_000))
    told = told_without_room(sorted(tmp_path.iterdir()), [600])
    assert {name: words.partition(":")[0] for (name, _), words in told.items()} == dict.fromkeys(
        ["a.png", "a.tif", "a.webp"], "damaged"
    ), told
