"""One encoded image: does it decode, what must be mended, and which digest names it.

Published rows keep the source's bytes. They are looked at cheaply (`builders.release.jpeg`) and decoded only where
something looks wrong, because decoding a million images takes hours and reading them takes minutes.
"""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import ExifTags, Image, ImageOps
from PIL.TiffImagePlugin import IFDRational

from builders.errors import BuildError
from builders.release.jpeg import Header, has_hole, looks_whole, read_header

Stored = Literal["source", "metadata_removed", "pixels"]
"""What a row's bytes are.

`source`: the source file's bytes. `metadata_removed`: the same without EXIF and XMP blocks that break decoding.
`pixels`: an image that we made, as PNG. `content_sha256` is over the stored bytes in the first two cases and over the
pixels in the third, since PNG bytes differ between encoder versions.
"""

DECODE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
"""What Pillow and `datasets.Image` raise on bytes that are no whole image, and on EXIF blocks that they cannot read.

The second kind ends streams (huggingface/datasets issues 7668 and 8165): `AttributeError` where a tag for text holds a
fraction, `ZeroDivisionError` where a fraction has no denominator, and more (python-pillow/Pillow 6492, 6799, 8965). An
error that is none of these is a fault of ours. `MemoryError` is what Pillow says of a size that cannot be.
"""

_SUB_BLOCKS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)


MOST_PIXELS = 100_000_000
"""Pixels of an image at most (ours), looked at before any of them is decoded. The largest image of a source, of
Caltech-256, has 62,615,569."""

_MOST_METADATA = 1 << 22
"""Bytes of EXIF and XMP blocks that are read (ours). Pillow copies all of them anew for each further one."""


class UnreadableImageError(ValueError):
    """Bytes that do not decode; the message is a few words on why."""


def check(data: bytes | bytearray | memoryview, *, decode: bool = False) -> bytes | None:
    """Make sure that one image decodes as `datasets.Image` would decode it.

    Args:
        data: the encoded image.
        decode: decode it whatever it looks like; otherwise only where its structure or metadata give a reason to
            (`jpeg.looks_whole` says what they do not show).

    Returns:
        None where the bytes can be stored as they are, else the bytes to store instead.

    Raises:
        UnreadableImageError: nothing can be decoded.
    """
    view = memoryview(data)
    if len(view) == 0:
        raise UnreadableImageError("the file is empty")
    # Only JPEG has a fast path: it is nearly all of every source, and the other formats' metadata is only tried by
    # decoding.
    if not decode and _is_sound(view):
        return None
    return decode_or_mend(bytes(view))[1]


def check_pixels(data: bytes | bytearray | memoryview) -> tuple[bytes | None, str]:
    """Decode one image.

    Returns:
        What `check` returns, and `pixel_sha256` of the image as readers see it.

    Raises:
        UnreadableImageError: nothing can be decoded.
    """
    if len(data) == 0:
        raise UnreadableImageError("the file is empty")
    image, mended = decode_or_mend(bytes(data))
    return mended, pixel_sha256(image)


def decode(data: bytes) -> Image.Image:
    """Decode and turn upright, in the order in which `datasets.Image.decode_example` (5.2) does it."""
    image: Image.Image = Image.open(io.BytesIO(data))
    if image.width * image.height > MOST_PIXELS:
        raise ValueError(f"{image.width:,} x {image.height:,} pixels, more than any image of a source")
    image.load()
    if image.getexif().get(ExifTags.Base.Orientation) is not None:
        image = ImageOps.exif_transpose(image)
    return image


def decode_or_mend(data: bytes) -> tuple[Image.Image, bytes | None]:
    """Decode and turn upright, without the metadata where that is what breaks decoding, in any version of Pillow.

    Returns:
        The image, and the bytes without metadata where only they decode.

    Raises:
        UnreadableImageError: nothing can be decoded, or a part of the image is lost.
    """
    header = read_header(data)
    if header is not None and has_hole(data, header):
        raise UnreadableImageError("zero bytes in place of a part of its image data")
    mended = _without_metadata(data)
    try:
        if header is not None and _metadata_bytes(header) > _MOST_METADATA:
            raise ValueError(f"{_metadata_bytes(header):,} bytes of EXIF or XMP blocks")
        image = decode(data)
        if mended is None or not _breaks_older_pillow(data):
            return image, None
    except DECODE_ERRORS as error:
        if mended is None:
            raise UnreadableImageError(_reason(error)) from error
    try:
        return decode(mended), mended
    except DECODE_ERRORS as error:
        raise UnreadableImageError(_reason(error)) from error


def content_sha256(stored: Stored, data: bytes) -> str:
    """The digest that identifies a row's content, as lower-case hex; see `Stored` for what it is over."""
    if stored != "pixels":
        return hashlib.sha256(data).hexdigest()
    return pixel_sha256(Image.open(io.BytesIO(data)))


def pixel_sha256(image: Image.Image) -> str:
    """SHA-256 over mode, size, palette if any, and raw pixels, so that equal pixels agree whatever the encoder."""
    if image.mode == "RGB":
        return rgb_sha256(np.asarray(image)[np.newaxis])[0]
    header = f"{image.mode} {image.width} {image.height}\n".encode()
    palette = bytes(image.getpalette("RGBA") or ()) if image.mode == "P" else b""
    return hashlib.sha256(header + palette + image.tobytes()).hexdigest()


def rgb_sha256(pixels: npt.NDArray[np.uint8]) -> list[str]:
    """`pixel_sha256` of many RGB images of one size, of shape (n, height, width, 3)."""
    header = hashlib.sha256(f"RGB {pixels.shape[2]} {pixels.shape[1]}\n".encode())
    digests = []
    for image in pixels:
        digest = header.copy()
        digest.update(image)
        digests.append(digest.hexdigest())
    return digests


def _is_sound(view: memoryview) -> bool:
    header = read_header(view)
    if header is None or not looks_whole(view, header):
        return False
    if header.metadata is None:
        return True
    return _metadata_bytes(header) <= _MOST_METADATA and _has_harmless_metadata(view)


def _has_harmless_metadata(view: memoryview) -> bool:
    """Read EXIF and XMP without decoding pixels; a block that turns the image is left to a full decode."""
    try:
        orientation = Image.open(io.BytesIO(view)).getexif().get(ExifTags.Base.Orientation)
    except DECODE_ERRORS:
        return False
    return orientation is None or orientation == 1


def _breaks_older_pillow(data: bytes) -> bool:
    """Tell whether an EXIF block that turns an image has a fraction without denominator.

    Pillow 11.0 cannot write such a tag anew, as turning asks for; later versions can, and the stored bytes should not
    depend on the version that built them.
    """
    exif = Image.open(io.BytesIO(data)).getexif()
    if exif.get(ExifTags.Base.Orientation) in (None, 1):
        return False
    blocks = (exif, *(exif.get_ifd(block) for block in _SUB_BLOCKS))
    values = [value for block in blocks for value in block.values()]
    numbers = [number for value in values for number in (value if isinstance(value, tuple) else (value,))]
    return any(isinstance(number, IFDRational) and number.denominator == 0 for number in numbers)


def _without_metadata(data: bytes) -> bytes | None:
    header = read_header(data)
    if header is None or not header.blocks:
        return None
    starts = [0, *(stop for _, stop in header.blocks)]
    stops = [*(start for start, _ in header.blocks), len(data)]
    return b"".join(data[start:stop] for start, stop in zip(starts, stops, strict=True))


def _metadata_bytes(header: Header) -> int:
    return sum(stop - start for start, stop in header.blocks)


def _reason(error: Exception) -> str:
    # Pillow's sentence for unknown bytes ends with the address of a buffer, which differs in every run.
    text = str(error).split(" <_io.BytesIO")[0]
    return text or type(error).__name__


def unreadable(rows: pa.Table, number: int, path: str, error: Exception) -> BuildError:
    """The sentence for an image that cannot be read or is not whole."""
    place = place_of(rows, number, path)
    return BuildError(
        f"{place} is not a whole image ({error}). Replace it with a good copy, or leave it out with --allow-partial."
    )


def place_of(rows: pa.Table, number: int, path: str) -> str:
    """Where an image is, for a person: the file, and the image's own id where the file holds many."""
    source_id = rows["source_id"][number].as_py()
    return path if path.endswith(source_id.rpartition("/")[2]) else f"{path} ({source_id})"
