"""Draws the demo's images, encodes them in ordinary and in troublesome ways, and describes a source's made-up copy.

Class names are the real ones, file names are fixed, and only the pixels depend on the seed.

Tested by `tests/builders/demo/test_write.py`.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def digest(*parts: object) -> bytes:
    """Return the SHA-256 of some values; everything random about an image is seeded by it."""
    return hashlib.sha256("|".join(map(str, parts)).encode()).digest()


def mixed(classes: Iterable[tuple[str, int]], tag: str) -> list[str]:
    """Return the classes of some numbered images in a random order that the tag seeds."""
    numbered = [f"{name}|{number}" for name, number in classes]
    return [item.partition("|")[0] for item in sorted(numbered, key=lambda item: digest(tag, item))]


_COUNT = np.arange(64, dtype=np.float32)


def draw_image(of_class: bytes, of_image: bytes) -> Image.Image:
    """Draw a gradient between the class's colours, the class's shape at the image's place and the image's bars.

    `of_class` has at least 11 bytes, the same for all images of a class; `of_image` at least 8.
    """
    width, height = 40 + of_image[0] % 24, 32 + of_image[1] % 24
    start, stop = (np.frombuffer(of_class[at : at + 3], np.uint8).astype(np.float32) for at in (0, 3))
    across, down = of_class[6] / 255, 1 - of_class[6] / 255
    ramp = np.float32(across / width) * _COUNT[:width] + np.float32(down / height) * _COUNT[:height, None]
    pixels = (start + ramp[..., None] * (stop - start)).astype(np.uint8)
    # Sixteen black or white bars: no two images look the same, even after a lossy encoder.
    bits = np.unpackbits(np.frombuffer(of_image[6:8], np.uint8))
    pixels[-4:] = 255 * bits[np.arange(width) * 16 // width][:, None]
    image = Image.fromarray(pixels)
    radius = 6 + of_image[2] % 6
    x, y = radius + of_image[3] % (width - 2 * radius), radius + of_image[4] % (height - 2 * radius - 4)
    colour = (255 - of_class[7], 255 - of_class[8], 255 - of_class[9])
    ImageDraw.Draw(image).regular_polygon((x, y, radius), 3 + of_class[10] % 6, rotation=of_image[5], fill=colour)
    return image


def encode_image(image: Image.Image, form: str, **options: object) -> bytes:
    """Encode an image in one of Pillow's formats."""
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def encode_jpeg(image: Image.Image) -> bytes:
    """Encode an image as a small JPEG."""
    return encode_image(image, "JPEG", quality=60)


def _with_segment(jpeg: bytes, payload: bytes) -> bytes:
    """Insert an APP1 segment (EXIF, XMP) after a JPEG's first marker."""
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload + jpeg[2:]


def _with_exif(*tags: tuple[int, int, int, bytes]) -> Callable[[Image.Image], bytes]:
    """Return an encoder of JPEGs with EXIF tags (number, type, count, value) that Pillow would refuse to write.

    A value of four bytes is stored in the table, a longer one after it.
    """
    table_end = 8 + 2 + 12 * len(tags) + 4
    table, values = b"", b""
    for number, kind, count, value in tags:
        is_short = len(value) == 4
        table += struct.pack("<HHL", number, kind, count)
        table += value if is_short else struct.pack("<L", table_end + len(values))
        values += b"" if is_short else value
    segment = b"Exif\0\0II*\0" + struct.pack("<LH", 8, len(tags)) + table + bytes(4) + values
    return lambda image: _with_segment(encode_jpeg(image), segment)


# EXIF types: 2 is text, 3 a 16-bit integer, 5 a fraction, 11 and 12 floating point of 32 and 64 bits. Orientation 6
# asks for a rotation by 90 degrees.
_ORIENTATION = (0x0112, 3, 1, struct.pack("<HH", 6, 0))
_UNIT_AS_TEXT = (0x0128, 2, 4, b"mm \0")
_RESOLUTION_AS_TEXT = (0x011A, 2, 4, b"72 \0")
_MAKE_AS_FRACTION = (0x010F, 5, 1, struct.pack("<LL", 1, 2))
_SOFTWARE_AS_FLOAT = (0x0131, 11, 1, struct.pack("<f", 1.5))
_COPYRIGHT_AS_DOUBLE = (0x8298, 12, 1, struct.pack("<d", 1.5))
_NO_DENOMINATOR = (0x011A, 5, 1, struct.pack("<LL", 72, 0))
_XMP = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x='adobe:ns:meta/'>\xa8</x:xmpmeta>"

ENCODERS: Mapping[str, Callable[[Image.Image], bytes]] = {
    "jpeg": encode_jpeg,
    "png": lambda image: encode_image(image, "PNG"),
    "png-with-alpha": lambda image: encode_image(image.convert("RGBA"), "PNG"),
    "gif": lambda image: encode_image(image, "GIF"),
    "bmp": lambda image: encode_image(image, "BMP"),
    "cmyk": lambda image: encode_jpeg(image.convert("CMYK")),
    "grayscale": lambda image: encode_jpeg(image.convert("L")),
    "orientation": _with_exif(_ORIENTATION),
    "exif-text-for-number": _with_exif(_ORIENTATION, _UNIT_AS_TEXT),
    "exif-text-for-fraction": _with_exif(_ORIENTATION, _RESOLUTION_AS_TEXT),
    "exif-fraction-for-text": _with_exif(_MAKE_AS_FRACTION, _ORIENTATION),
    "exif-float-for-text": _with_exif(_ORIENTATION, _SOFTWARE_AS_FLOAT),
    "exif-double-for-text": _with_exif(_ORIENTATION, _COPYRIGHT_AS_DOUBLE),
    "exif-no-denominator": _with_exif(_ORIENTATION, _NO_DENOMINATOR),
    "xmp-not-utf8": lambda image: _with_segment(encode_jpeg(image), _XMP),
}
"""Ways to store an image, by name; all but the first are troubles.

`datasets.Image` turns an image by its EXIF orientation and for that writes the other tags anew. With Pillow 13 it
fails on all `exif-...` kinds but the last: `struct.error` where a tag for a whole number (ResolutionUnit) holds text,
`TypeError` where a tag for a fraction (XResolution) does, `AttributeError` where one for text (Make, Software,
Copyright) holds a fraction or a floating point number. `exif-no-denominator` (XResolution 72/0) fails in Pillow 11.0
(`ZeroDivisionError`) and `xmp-not-utf8` in 11.2 (`UnicodeDecodeError`), neither in 13.
"""


@dataclass(frozen=True)
class Drawing:
    """An image to draw: its path in the source's folder, its stable id and class, and how it is drawn and encoded.

    `draw` takes digests of the class and of the image. `kind` is a key of `ENCODERS`.
    """

    path: str
    source_id: str
    class_id: str
    draw: Callable[[bytes, bytes], Image.Image] = draw_image
    kind: str = "jpeg"


@dataclass(frozen=True)
class DemoSource:
    """The demo of a source: images in files of their own, or whatever `write` puts into a folder, given a seed.

    `lists` gives the source's lists as {path: text}, from its images. `troubles` are images that are stored otherwise
    than the rest, as some of the real ones are: the key of `ENCODERS`, by path. `strays` are files that are no images
    of the source, and empty folders (with a slash at the end).
    """

    images: Callable[[], Iterable[Drawing]] = tuple
    lists: Callable[[Sequence[Drawing]], dict[str, str]] = lambda _: {}
    troubles: Mapping[str, str] = field(default_factory=dict, hash=False)
    strays: tuple[str, ...] = ()
    write: Callable[[Path, int], None] = lambda _folder, _seed: None

    def encoded(self, key: str, image: Drawing, seed: int) -> bytes:
        """Return the bytes of an image's file; `key` is the source's."""
        pixels = image.draw(digest(seed, key, image.class_id), digest(seed, key, image.source_id))
        return ENCODERS[self.troubles.get(image.path, image.kind)](pixels)


def numbers(class_id: str, count: int, limit: int, fixed: Sequence[int] = ()) -> list[int]:
    """Return distinct numbers below a limit for a class's file names, irregular as real ones; `fixed` are included."""
    distinct = dict.fromkeys(fixed)
    counter = 0
    while len(distinct) < count:
        distinct[int.from_bytes(digest("number", class_id, counter)[:4], "big") % limit] = None
        counter += 1
    return sorted(distinct)


def lines(items: Iterable[str]) -> str:
    """Return the text of a list, one item a line."""
    return "".join(f"{item}\n" for item in items)
