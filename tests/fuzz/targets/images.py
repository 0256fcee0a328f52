"""Encoded images."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from builders.errors import BuildError
from builders.release import images
from builders.release.jpeg import has_hole, looks_whole, read_jpeg_header
from tests.fuzz.bombs import zlib_bomb
from tests.fuzz.target import Target

PIXELS = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)


def encoded(form: str, mode: str = "RGB", **options: object) -> bytes:
    """A small picture in some format."""
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).convert(mode).save(buffer, form, **options)
    return buffer.getvalue()


def jpegs() -> list[bytes]:
    """Sequential and progressive JPEGs, with colour, without, and with an EXIF block."""
    exif = Image.Exif()
    exif[0x0112], exif[0x0110] = 6, "camera"
    plain = [encoded("JPEG", mode, progressive=kind) for mode in ("RGB", "L", "CMYK") for kind in (False, True)]
    return [*plain, encoded("JPEG", exif=exif.tobytes())]


def pictures() -> list[bytes]:
    """Pictures in all formats that sources have, and some of their kinds."""
    other_pictures = [encoded("PNG", mode) for mode in ("RGB", "L", "P", "RGBA", "1")]
    other_pictures += [encoded("GIF", "P"), encoded("WEBP"), encoded("WEBP", lossless=True), encoded("BMP")]
    return [*jpegs(), *other_pictures, encoded("TIFF"), encoded("TIFF", compression="tiff_lzw")]


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, data: bytes = b"", *more: bytes) -> bytes:
    """A PNG of grey pixels with any size, and chunks before its pixels."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", data or zlib.compress(b"\0"))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + pixels + chunk(b"IEND", b"")


def jpeg_of(width: int, height: int) -> bytes:
    """A JPEG that says to be of another size."""
    data = encoded("JPEG")
    frame = data.index(b"\xff\xc0") + 5
    return data[:frame] + struct.pack(">HH", height, width) + data[frame + 4 :]


def tiff(*entries: tuple[int, int, int, int]) -> bytes:
    """A TIFF of one directory: tag, type, count and value of each entry."""
    directory = b"".join(struct.pack("<HHII", *entry) for entry in sorted(entries))
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + directory + bytes(4) + bytes(64)


def frames(count: int) -> bytes:
    """A GIF of many frames, each of one pixel."""
    pictures = [Image.new("L", (1, 1), number % 250) for number in range(200)] * (count // 200)
    buffer = io.BytesIO()
    pictures[0].save(buffer, "GIF", save_all=True, append_images=pictures[1:])
    return buffer.getvalue()


def with_segment(marker: int, content: bytes, times: int = 1) -> bytes:
    """A JPEG with further segments at its start."""
    data = encoded("JPEG")
    return data[:2] + (struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content) * times + data[2:]


SIDE = 50_000
_SIZES = ((256, 4, 1, SIDE), (257, 4, 1, SIDE), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (277, 3, 1, 1))
_STRIPS = ((273, 4, 1, 100), (278, 4, 1, SIDE), (279, 4, 1, SIDE * SIDE % 2**32))


def cases() -> dict[str, bytes]:
    """Pictures that take memory or time."""
    flat = zlib_bomb(bytes(12_000 * 12_001 % (1 << 20)), 12_000 * 12_001 >> 20)
    large = zlib_bomb(b"", 100)
    text = b"a\0\0" + zlib.compress(bytes(1 << 20))
    webp = bytearray(encoded("WEBP", lossless=True))
    webp[21:25] = struct.pack("<I", 0x3FFF | 0x3FFF << 14)
    exif = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<HHHII", 1, 0x0112, 3, 0x7FFFFFFF, 8) + bytes(8)
    return {
        "PNG of 50,000 x 50,000": png(SIDE, SIDE),
        "PNG of 50,000 x 50,000 with EXIF": png(SIDE, SIDE, b"", chunk(b"eXIf", exif[6:])),
        "PNG of 12,000 x 12,000 whole": png(12_000, 12_000, flat),
        "PNG of 2 billion x 2 billion": png(2**31 - 1, 2**31 - 1),
        "PNG of 2 billion x 1": png(2**31 - 1, 1),
        "PNG with a profile of 100 MB": png(9, 9, b"", chunk(b"iCCP", b"a\0\0" + large)),
        "PNG with a text of 100 MB": png(9, 9, b"", chunk(b"zTXt", b"a\0\0" + large)),
        "PNG with a thousand texts": png(9, 9, b"", *[chunk(b"zTXt", text)] * 1000),
        "PNG said to have a chunk of 4 GB": png(9, 9)[:33] + struct.pack(">I", 2**32 - 1) + b"tEXt" + b"abc",
        "JPEG of 65,500 x 65,500": jpeg_of(65_500, 65_500),
        "JPEG of 65,500 x 65,500 with EXIF": with_segment(0xE1, exif)[:-700] + jpeg_of(65_500, 65_500)[2:],
        "JPEG with a long list in EXIF": with_segment(0xE1, exif),
        "JPEG with 200 EXIF blocks": with_segment(0xE1, exif + bytes(60_000), 200),
        "JPEG with 2,000 EXIF blocks": with_segment(0xE1, exif + bytes(30_000), 2000),
        "JPEG with 255 profiles": with_segment(0xE2, b"ICC_PROFILE\0\1\xff" + bytes(65_000), 255),
        "GIF of 50,000 x 50,000": encoded("GIF", "P")[:6] + struct.pack("<HH", SIDE, SIDE) + encoded("GIF", "P")[10:],
        "GIF of 4,000 frames": frames(4000),
        "WebP of 16,384 x 16,384": bytes(webp),
        "TIFF of 50,000 x 50,000": tiff(*_SIZES, *_STRIPS),
        "TIFF with a list of 2 billion": tiff(*_SIZES[:2], (273, 4, 2**31, 8)),
        "TIFF that points at itself": tiff(*_SIZES)[:4] + struct.pack("<I", 4) + tiff(*_SIZES)[8:],
    }


def check(folder: Path) -> object:
    """What a build does with an image: look at it, and decode it whatever it looks like."""
    data = (folder / "x").read_bytes()
    try:
        images.check_image(data)
        return images.checked(data, decode=True)
    except images.UnreadableImageError as error:
        raise BuildError(f"It does not decode ({error}).") from error


def structure(folder: Path) -> tuple[bool, bool] | None:
    """What can be seen of a JPEG without decoding it."""
    data = (folder / "x.jpg").read_bytes()
    header = read_jpeg_header(data)
    return None if header is None else (has_hole(data, header), looks_whole(memoryview(data), header))


TARGETS = (
    Target("jpeg-structure", "x.jpg", jpegs, structure, refuses=False),
    Target("image", "x", pictures, check, cases=cases),
)
