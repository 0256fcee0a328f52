"""What Pillow and libtiff say of images: nothing on stderr, and one line that counts."""

import contextlib
import io
import logging
import re
import struct
import sys
import warnings

import pytest
from PIL import Image, TiffImagePlugin

from builders.demo.images import encode_image
from builders.release.remarks import ImageRemarks, collect_remarks, summary


def with_tag(data, tag, kind, count, value):
    """A little-endian TIFF with one more entry at the start of its only directory (TIFF 6.0, section 2)."""
    (at,) = struct.unpack_from("<I", data, 4)
    (entries,) = struct.unpack_from("<H", data, at)
    directory = data[at + 2 : at + 2 + 12 * entries] + struct.pack("<HHII", tag, kind, count, value)
    ordered = sorted(struct.iter_unpack("<HHI4s", directory))
    new = struct.pack("<H", len(ordered)) + b"".join(struct.pack("<HHI4s", *entry) for entry in ordered) + bytes(4)
    return data[:4] + struct.pack("<I", len(data)) + data[8:] + new


PLAIN = encode_image(Image.new("RGB", (16, 12), "red"), "TIFF", compression="tiff_lzw")
WARNED = with_tag(PLAIN, 37_500, 1, 60_000, 9)  # a tag whose values lie beyond the end of the file: Pillow warns
PRINTED = with_tag(PLAIN, 65_000, 14, 1, 1)  # a tag of a type that TIFF lacks: libtiff prints a line
CODES = Image.open(io.BytesIO(PLAIN)).tag_v2[TiffImagePlugin.STRIPOFFSETS][0]
DAMAGED = PLAIN[:CODES] + bytes(16) + PLAIN[CODES + 16 :]  # codes that LZW does not begin with: an error, and a line


def load(data):
    with contextlib.suppress(OSError):
        Image.open(io.BytesIO(data)).load()


@pytest.mark.parametrize("data", [WARNED, PRINTED, DAMAGED], ids=["pillow", "libtiff", "libtiff-error"])
def test_remarks_are_collected_and_nothing_is_printed(data, capfd, recwarn):
    if data is not WARNED and sys.platform == "win32":
        pytest.skip("libtiff is part of Pillow's module there")
    load(data)
    assert capfd.readouterr().err or len(recwarn)  # as it is without
    recwarn.clear()
    with collect_remarks() as remarks:
        load(data)
        remarks.assign("a.tif")
        load(data)  # Python says such a thing once for each line of code, unless asked
        remarks.assign("b.tif")
        load(PLAIN)
        assert not remarks.heard
    assert (remarks.images, remarks.heard) == (2, "")
    assert re.match(r"a\.tif \(.*\b(tag|table)\b.*\)\Z", remarks.first, re.IGNORECASE)
    assert capfd.readouterr().err == "" and not recwarn


def test_what_pillow_logs_is_collected(capfd):
    """Python prints messages of loggers that nobody has set up."""
    logger = logging.getLogger(TiffImagePlugin.__name__)
    with collect_remarks() as remarks:
        logger.error("More samples per pixel than can be decoded: %s", 65_535)
        logger.debug("of no interest")
    assert remarks.heard == "More samples per pixel than can be decoded: 65535"
    assert capfd.readouterr().err == ""
    assert logging.getLogger("PIL").handlers == [] and logging.getLogger("PIL").propagate


def test_warnings_of_others_are_shown_and_everything_is_as_before_afterwards(capfd):
    before = warnings.showwarning
    with pytest.warns(DeprecationWarning, match="ours"), collect_remarks() as remarks:
        warnings.warn("ours", DeprecationWarning, stacklevel=1)
    assert remarks.heard == "" and warnings.showwarning is before
    if sys.platform != "win32":
        load(DAMAGED)
        assert "code not yet in table" in capfd.readouterr().err  # libtiff prints again


def test_the_line_counts_images_and_names_the_first():
    assert summary([]) == summary([ImageRemarks(), ImageRemarks()]) == ""
    one = ImageRemarks(heard="Truncated File Read")
    one.assign("known/a\n.tif")
    assert summary([ImageRemarks(), one]) == "Pillow warns of 1 image, such as known/a\\n.tif (Truncated File Read)"
    assert summary([one, ImageRemarks(1_200, "b (c)")]).startswith("Pillow warns of 1,201 images, such as known/a")
