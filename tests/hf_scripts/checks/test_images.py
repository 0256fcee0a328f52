"""`verify` takes the images that a build writes, and no others."""

import hashlib
import inspect
import io
import struct
import subprocess
import zlib

import numpy as np
import pyarrow as pa
import pytest
from PIL import EpsImagePlugin, ExifTags, Image
from PIL.TiffImagePlugin import IFDRational

from builders.demo.images import encode_image
from builders.release import images
from hf_scripts.checks.images import check_images
from hf_scripts.checks.problems import Problems
from hf_scripts.checks.values import SplitFacts
from tests.fuzz.targets.images import chunk, encoded, jpeg_of, pictures, with_segment
from tests.sentences import stops

pytestmark = pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8))
EPS = encode_image(NOISE, "EPS")


def with_exif(**tags):
    exif = Image.Exif()
    for name, value in tags.items():
        exif[ExifTags.Base[name]] = value
    return encode_image(NOISE, "JPEG", exif=exif.tobytes())


def with_hole():
    data = encode_image(NOISE, "JPEG")
    return data[: len(data) // 2] + bytes(1024) + data[len(data) // 2 + 1024 :]


def deep(kind, form):
    return encode_image(Image.fromarray(np.full((9, 7), 30_000, kind)), form)


# One pixel; Pillow gives colours of 16 bits with 8.
COLOURS_OF_16_BITS = b"".join(
    [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(bytes(7))),
        chunk(b"IEND", b""),
    ]
)

TAKEN = {
    **{f"picture-{number}": data for number, data in enumerate(pictures())},
    "exif": with_exif(Orientation=1, Model="camera"),
    "turned": with_exif(Orientation=6),
    "fraction": with_exif(XResolution=IFDRational(72, 0)),
    "icon": encode_image(NOISE.resize((32, 32)), "ICO"),
    "16-bit-colours": COLOURS_OF_16_BITS,
}
REFUSED = {
    "16-bit-png": deep("u2", "PNG"),
    "16-bit-tiff": deep("u2", "TIFF"),
    "32-bit-tiff": deep("i4", "TIFF"),
    "float-tiff": deep("f4", "TIFF"),
    "eps": EPS,
    "10,000-by-10,001": encode_image(Image.new("L", (10_000, 10_001)), "PNG", compress_level=1),
    "jpeg-of-10,000-by-10,001": jpeg_of(10_000, 10_001),
    "hole": with_hole(),
    "turned-with-fraction": with_exif(Orientation=6, XResolution=IFDRational(72, 0)),
    "metadata-of-6-mb": with_segment(0xE1, bytes(60_000), 100),
    "cut": encode_image(NOISE, "JPEG")[:-40],
    "12-bit": encoded("JPEG").replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c"),
    "text": b"<html>404</html>",
    "empty": b"",
}


def build_takes(data):
    """Whether a build stores these bytes as they are."""
    try:
        return images.check_image(data, decode=True) is None
    except images.UnreadableImageError:
        return False


def problems_of(data):
    split = SplitFacts("bench/test", (), (), (), 0, False, False, frozenset())
    row = {
        "image": {"bytes": data, "path": "a"},
        "stored": "source",
        "content_sha256": hashlib.sha256(data).hexdigest(),
    }
    problems = Problems()
    check_images(pa.RecordBatch.from_pylist([row]), "shard", 0, problems, split=split, decode=True)
    return list(problems.lines())


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_build_stores_is_taken(name):
    assert build_takes(TAKEN[name])
    assert problems_of(TAKEN[name]) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_build_stores_is_refused(name):
    assert not build_takes(REFUSED[name])
    (problem,) = problems_of(REFUSED[name])
    assert problem.startswith(("shard row 0: no build writes the image: ", "shard row 0: datasets cannot decode the "))


def test_no_other_program_is_started_for_an_image(monkeypatch):
    """With Ghostscript on a machine, Pillow has it draw an EPS file, whatever the file is called."""
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", "gs")  # as found
    started = []
    monkeypatch.setattr(subprocess, "check_call", lambda *given, **_: started.append(given))
    with stops(images.UnreadableImageError, "EPS"):
        images.check_image(EPS)
    assert "no build writes the image: its format is EPS" in problems_of(EPS)[0]
    assert started == []
    with pytest.raises(Exception):  # noqa: B017 - there is no image where Ghostscript did not write one
        Image.open(io.BytesIO(EPS)).load()
    assert started


def test_decoders_that_start_programs_are_the_known_ones():
    """EPS's draws; those of GIF and JPEG start some only in functions that opening and loading do not call."""
    Image.init()
    modules = {form: inspect.getmodule(Image.OPEN[form][0]) for form in Image.OPEN}
    starting = {form for form, module in modules.items() if "subprocess" in inspect.getsource(module)}
    assert starting == {"EPS", "GIF", "JPEG"}
