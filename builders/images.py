"""One encoded image: does it decode, what must be mended, and which digest names it.

Published rows keep the source's bytes. They are looked at cheaply (signature and end) and decoded only where
something looks wrong, because decoding a million images takes hours and reading them takes minutes.
"""

from __future__ import annotations

import hashlib
import io
import struct
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps

Stored = Literal["source", "metadata_removed", "pixels"]
"""What a row's bytes are.

`source`: the source file's bytes. `metadata_removed`: the same without EXIF and XMP blocks that break decoding.
`pixels`: an image that we made, as PNG. `content_sha256` is over the stored bytes in the first two cases and over the
pixels in the third, since PNG bytes differ between encoder versions.
"""

_JPEG_START = b"\xff\xd8"
_JPEG_END = b"\xff\xd9"
_APP1 = 0xE1
_START_OF_SCAN = 0xDA

# What Pillow raises on bytes that are no whole image, and on EXIF blocks whose tags cannot be read
# (huggingface/datasets issue 7668 shows the second kind end a stream).
_DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    struct.error,
    OverflowError,
    Image.DecompressionBombError,
)


class UnreadableImageError(ValueError):
    """Bytes that do not decode; the message is a few words on why."""


def check(data: bytes | bytearray | memoryview, *, decode: bool = False) -> bytes | None:
    """Make sure that one image decodes as `datasets.Image` would decode it.

    Args:
        data: the encoded image.
        decode: decode it whatever it looks like; otherwise only where signature, end or metadata give a reason to.

    Returns:
        None where the bytes can be stored as they are, else the bytes to store instead.

    Raises:
        UnreadableImageError: nothing can be decoded.
    """
    view = memoryview(data)
    if len(view) == 0:
        raise UnreadableImageError("the file is empty")
    if not decode and _looks_whole(view) and (metadata_segment(view) is None or _has_harmless_metadata(view)):
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
    image.load()
    if image.getexif().get(ExifTags.Base.Orientation) is not None:
        image = ImageOps.exif_transpose(image)
    return image


def metadata_segment(data: bytes | memoryview) -> tuple[int, int] | None:
    """Find the first APP1 segment of a JPEG: its EXIF or XMP block, both of which decoding reads.

    Args:
        data: an encoded image of any format.

    Returns:
        Start and stop of the whole segment, marker included; None where there is none.
    """
    if bytes(data[:2]) != _JPEG_START:
        return None
    position, size = 2, len(data)
    while position + 4 <= size and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:  # padding before a marker (ITU-T T.81, B.1.1.2)
            position += 1
            continue
        if marker == _START_OF_SCAN:
            return None
        stop = position + 2 + (data[position + 2] << 8 | data[position + 3])
        if marker == _APP1:
            return position, stop
        position = stop
    return None


def decode_or_mend(data: bytes) -> tuple[Image.Image, bytes | None]:
    """Decode and turn upright, without the metadata where that is what breaks decoding.

    Returns:
        The image, and the bytes without metadata where only they decode.

    Raises:
        UnreadableImageError: nothing can be decoded.
    """
    try:
        return decode(data), None
    except _DECODE_ERRORS as error:
        mended = _without_metadata(data)
        if mended is None:
            raise UnreadableImageError(_reason(error)) from error
        try:
            return decode(mended), mended
        except _DECODE_ERRORS as second:
            raise UnreadableImageError(_reason(second)) from second


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


def _looks_whole(view: memoryview) -> bool:
    # Only JPEG has a fast path: it is nearly all of every source, and the other formats' metadata is only tried by
    # decoding.
    return view[:2] == _JPEG_START and view[-2:] == _JPEG_END


def _has_harmless_metadata(view: memoryview) -> bool:
    """Read EXIF and XMP without decoding pixels; a block that turns the image is left to a full decode."""
    try:
        orientation = Image.open(io.BytesIO(view)).getexif().get(ExifTags.Base.Orientation)
    except _DECODE_ERRORS:
        return False
    return orientation is None or orientation == 1


def _without_metadata(data: bytes) -> bytes | None:
    mended = data
    while (segment := metadata_segment(mended)) is not None:
        mended = mended[: segment[0]] + mended[segment[1] :]
    return None if mended is data else mended


def _reason(error: Exception) -> str:
    # Pillow's sentence for unknown bytes ends with the address of a buffer, which differs in every run.
    text = str(error).split(" <_io.BytesIO")[0]
    return text or type(error).__name__
