"""Checks encoded images, removes metadata that breaks decoding, and computes digests.

Published rows keep the bytes of the source. These are checked without decoding (`builders.release.jpeg`) and decoded
only if something looks wrong: decoding a million images takes hours, reading them takes minutes.
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
from builders.release.jpeg import JpegHeader, has_hole, looks_whole, read_jpeg_header

Stored = Literal["source", "metadata_removed", "pixels", "adopted"]
"""The origin of a row's bytes.

`source`: the bytes of the source file. `metadata_removed`: these without EXIF and XMP blocks that break decoding.
`pixels`: a generated image, as PNG. `adopted`: an image that the benchmark's authors generated, as PNG.
`content_sha256` is over the stored bytes in the first two cases, and over the pixels in the others (`BY_PIXELS`),
because PNG bytes differ between encoder versions. Pixels are those that a reader sees: turned as EXIF or XMP say.
"""

BY_PIXELS: frozenset[str] = frozenset({"pixels", "adopted"})

DECODE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
"""Exceptions that Pillow and `datasets.Image` raise on damaged images and on EXIF blocks that they cannot read.

The latter stop the iteration over a dataset (huggingface/datasets issues 7668 and 8165): `AttributeError` if a text
tag holds a fraction, `ZeroDivisionError` for a denominator of 0, and others (python-pillow/Pillow 6492, 6799, 8965).
`MemoryError` is none of them: it says nothing of an image (`decode`). Any other exception is a bug of ours.
"""

_SUB_BLOCKS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)


MOST_PIXELS = 100_000_000
"""Pixels of an image at most (ours), looked at before any of them is decoded. The largest image of a source, of
Caltech-256, has 62,615,569."""

_PLAIN_MODES = {1: "L", 3: "RGB"}
_PLAIN_PIXELS = 1 << 24
"""Pixels of a JPEG that is given to the decoder at once (ours), far from those at which Pillow warns of an attack."""

_DEEP_MODES = ("I", "F")
"""Starts of Pillow's modes for values of 16 and 32 bits (I;16, I;16B, I, F). No file says which of them is white, and
`convert("RGB")`, by which `datasets`' readers go on, makes all above 255 white (Pillow 11 to 13)."""

_PIXEL_NEEDS = 32
_IMAGE_NEEDS = 1 << 26
"""Bytes that decoding takes for each pixel, and beside them, with a decoder that has to be loaded, at most (ours).
JPEG 2000 takes 18 a pixel of three channels, WebP 15, TIFF 12 (Pillow 13, by limits below which it fails)."""

_OTHER_PROGRAMS = {"EPS": "Ghostscript", "WMF": "Windows"}
"""Formats that Pillow has drawn by another program, so that the pixels depend on the machine."""

_MOST_METADATA = 1 << 22
"""Bytes of EXIF and XMP blocks that are read (ours). Pillow copies all of them anew for each further one."""


class UnreadableImageError(ValueError):
    """The bytes of an image do not decode; the message gives the reason in a few words."""


class TooNarrowError(ValueError):
    """An image is so narrow that its resized copy would not fit in memory."""


def resized_size(size: tuple[int, int], shorter: int) -> tuple[int, int]:
    """Return the size of an image after its shorter side is resized to `shorter` pixels, rounded as torchvision does.

    The longer side is cut to a whole number of pixels. Smaller images are enlarged: ILSVRC2012 has validation images
    with a side below 224, and torchvision's `Resize`, by which accuracies are measured, enlarges them, too. Raises
    `TooNarrowError` if it would have more than `MOST_PIXELS`.
    """
    width, height = (shorter * side // min(size) for side in size)
    if width * height > MOST_PIXELS:
        raise TooNarrowError(f"it is too narrow to be resized ({size[0]:,} x {size[1]:,} pixels)")
    return width, height


def resized(image: Image.Image, size: tuple[int, int], resample: Image.Resampling) -> Image.Image:
    """Resize the columns of an RGB image and then its rows, so that every version of Pillow gives the same pixels.

    Within one call, Pillow 13 begins with the rows of images that shrink more in height (python-pillow/Pillow #9549),
    after which one pixel in six is one level off. Earlier versions always begin with the columns.
    """
    return image.resize((size[0], image.height), resample).resize(size, resample)


def check_image(data: bytes | bytearray | memoryview, *, decode: bool = False) -> bytes | None:
    """Check that `datasets.Image` can decode an image; returns bytes to store instead, or None if it is fine.

    Without `decode` it is decoded only if its structure or metadata look wrong (for the damage that they do not show,
    see `jpeg.looks_whole`). Raises `UnreadableImageError` if it cannot be decoded.
    """
    return checked(data, decode=decode)[1]


def checked(data: bytes | bytearray | memoryview, *, decode: bool) -> tuple[Image.Image | None, bytes | None]:
    """Check as `check_image` does; return the image too, None if it was not decoded for that."""
    view = memoryview(data)
    # Only JPEG, which nearly all images are, has a fast path: the metadata of other formats is checked by decoding.
    return (None, None) if not decode and _is_sound(view) else decode_or_mend(bytes(view))


def refuse_undecodable(image: Image.Image) -> None:
    """Refuse an opened image that must not be decoded.

    Raises:
        UnreadableImageError: another program would draw it, or it has more than `MOST_PIXELS`.
    """
    if image.format in _OTHER_PROGRAMS:
        program = _OTHER_PROGRAMS[image.format]
        raise UnreadableImageError(f"its format is {image.format}, which only {program} draws; save it as PNG")
    if image.width * image.height > MOST_PIXELS:
        raise UnreadableImageError(f"{image.width:,} x {image.height:,} pixels, more than any image of a source")


def decode(data: bytes) -> Image.Image:
    """Decode an image and apply its EXIF orientation, in the order of `datasets.Image.decode_example` (5.2).

    Decoders that lack memory say so, or that a stream is broken, or that they know no such format. So where one fails,
    the memory is asked for that an image of its size takes, and if there is as much, the image is decoded again.

    Raises `UnreadableImageError` for one that no release has, any of `DECODE_ERRORS` if it does not decode, and
    `MemoryError` if this machine lacks memory for it, which says nothing of its bytes.
    """
    try:
        return _decoded(data)
    except UnreadableImageError:
        raise
    except (MemoryError, SystemError, *DECODE_ERRORS):  # SystemError is Pillow's, of JPEG 2000 without memory
        pass  # its traceback, which holds the image's memory, ends here
    require_memory(data)
    try:
        return _decoded(data)
    except (MemoryError, SystemError) as error:
        raise UnreadableImageError("it asks for more memory than an image of its size needs") from error


def require_memory(data: bytes) -> None:
    """Raise `MemoryError` if this process cannot have the memory that decoding an image takes, of any allowed size."""
    width, height = _claimed_size(data)
    if width * height > MOST_PIXELS:
        return
    try:
        np.empty(_PIXEL_NEEDS * width * height + _IMAGE_NEEDS, np.uint8)
    except MemoryError as error:
        size = f" of {width:,} x {height:,} pixels" if width else ""
        raise MemoryError(f"unable to allocate an image{size}") from error


def _claimed_size(data: bytes) -> tuple[int, int]:
    """Return the size that an image says it has, (0, 0) if Pillow knows none."""
    if data[8:16] == b"WEBPVP8X":  # which Pillow opens only with memory for two pictures
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[8:16] == b"WEBPVP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if data[8:16] == b"WEBPVP8 ":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    try:
        return Image.open(io.BytesIO(data)).size
    except DECODE_ERRORS:
        return 0, 0


def _decoded(data: bytes) -> Image.Image:
    if (plain := _plain_jpeg(data)) is not None:
        return plain
    image: Image.Image = Image.open(io.BytesIO(data))
    refuse_undecodable(image)
    image.load()
    if image.getexif().get(ExifTags.Base.Orientation) is not None:
        image = ImageOps.exif_transpose(image)
    if image.mode.startswith(_DEEP_MODES):
        raise UnreadableImageError(f"it has values of more than 8 bits, mode {image.mode}; save it with 8 bits")
    return image


def _plain_jpeg(data: bytes) -> Image.Image | None:
    """Decode a JPEG of which Pillow would read the size alone; None for all others, and for what does not decode.

    Its decoder is given the bytes at once. Opening the image and reading it in blocks takes a twentieth of decoding.
    """
    header = read_jpeg_header(data)
    if header is None or not (header.is_plain and header.is_usual) or header.read.pixels > _PLAIN_PIXELS:
        return None
    mode = _PLAIN_MODES.get(len(header.read.components))
    try:
        if mode is None:
            return None
        image = Image.new(mode, header.read.size, None)  # without pixels, which the decoder sets
        image.frombytes(data, "jpeg", mode, "")
        return image
    except DECODE_ERRORS:  # Pillow finds it again, and says what it is
        return None


def decode_built(data: bytes) -> Image.Image:
    """Decode an image of a release as `decode` does; an image that no build stores is refused even if it decodes.

    Raises:
        UnreadableImageError: the image is not to be decoded, lacks a part, or has metadata that a build removes.
        Exception: one of `DECODE_ERRORS`, of an image that does not decode.
    """
    header = _header_of_whole(data)
    if header is not None and _has_odd_metadata(data, header):
        raise UnreadableImageError("it has EXIF or XMP blocks that break decoding in some versions of Pillow")
    return decode(data)


def decode_or_mend(data: bytes) -> tuple[Image.Image, bytes | None]:
    """Decode an image and apply its EXIF orientation; metadata that breaks decoding in any Pillow is removed.

    Returns the image, and the bytes without metadata if only these decode. Raises `UnreadableImageError` if it cannot
    be decoded, a part of it is lost, or no release has its kind.
    """
    header = _header_of_whole(data)
    try:
        if header is None or not _has_odd_metadata(data, header):
            return decode(data), None
    except DECODE_ERRORS as error:
        if header is None or not header.blocks:
            raise UnreadableImageError(decode_reason(error)) from error
    starts = [0, *(stop for _, stop in header.blocks)]
    stops = [*(start for start, _ in header.blocks), len(data)]
    mended = b"".join(data[start:stop] for start, stop in zip(starts, stops, strict=True))
    try:
        return decode(mended), mended
    except DECODE_ERRORS as error:
        raise UnreadableImageError(decode_reason(error)) from error


def content_sha256(stored: str, data: bytes | memoryview) -> str:
    """Return the digest that identifies a row's content, as lower-case hex; see `Stored`."""
    if stored not in BY_PIXELS:
        return hashlib.sha256(data).hexdigest()
    return pixel_sha256(decode_or_mend(bytes(data))[0])


def pixel_sha256(image: Image.Image) -> str:
    """Return the SHA-256 over mode, size, palette (if any) and raw pixels, which no encoder changes."""
    if image.mode == "RGB":
        return array_sha256(np.asarray(image)[np.newaxis])[0]
    header = f"{image.mode} {image.width} {image.height}\n".encode()
    palette = bytes(image.getpalette("RGBA") or ()) if image.mode == "P" else b""
    return hashlib.sha256(header + palette + image.tobytes()).hexdigest()


def array_sha256(pixels: npt.NDArray[np.uint8]) -> list[str]:
    """Return the `pixel_sha256` of each of many images of one size: RGB, (n, height, width, 3), or grey, no 3."""
    mode = "RGB" if pixels.ndim == 4 else "L"
    header = hashlib.sha256(f"{mode} {pixels.shape[2]} {pixels.shape[1]}\n".encode())
    digests = []
    for image in pixels:
        digest = header.copy()
        digest.update(image)
        digests.append(digest.hexdigest())
    return digests


def _is_sound(view: memoryview) -> bool:
    """Whether a JPEG looks whole, and Pillow opens it and finds no orientation in EXIF and XMP, which needs a decode.

    Opening takes as long as all the rest. Without segments on which Pillow could fail it is left out.
    """
    header = read_jpeg_header(view)
    if header is None or not looks_whole(view, header) or header.metadata > _MOST_METADATA:
        return False
    if header.is_plain and header.read.pixels <= MOST_PIXELS:
        return True
    try:
        image = Image.open(io.BytesIO(view))
        refuse_undecodable(image)
        return not header.blocks or _orientation(image.getexif()) == 1
    except DECODE_ERRORS:
        return False


def _header_of_whole(data: bytes) -> JpegHeader | None:
    """Read the header of a JPEG, None for other formats; raises `UnreadableImageError` if a part of it is lost."""
    if not data:
        raise UnreadableImageError("the file is empty")
    header = read_jpeg_header(data)
    if header is not None and has_hole(data, header):
        raise UnreadableImageError("zero bytes in place of a part of its image data")
    return header


def _has_odd_metadata(data: bytes, header: JpegHeader) -> bool:
    """Whether a build removes the metadata of a JPEG although this version of Pillow may decode it."""
    return bool(header.blocks) and (header.metadata > _MOST_METADATA or _breaks_older_pillow(data))


def _orientation(exif: Image.Exif) -> object:
    orientation = exif.get(ExifTags.Base.Orientation)
    return 1 if orientation is None else orientation


def _breaks_older_pillow(data: bytes) -> bool:
    """Whether an EXIF block gives an orientation and has a fraction with denominator 0.

    Applying the orientation rewrites the block, which Pillow 11.0 cannot do with such a fraction. Later versions can,
    and the stored bytes should not depend on the version of Pillow.
    """
    exif = Image.open(io.BytesIO(data)).getexif()
    if _orientation(exif) == 1:
        return False
    blocks = (exif, *(exif.get_ifd(block) for block in _SUB_BLOCKS))
    values = [value for block in blocks for value in block.values()]
    numbers = [number for value in values for number in (value if isinstance(value, tuple) else (value,))]
    return any(isinstance(number, IFDRational) and number.denominator == 0 for number in numbers)


def decode_reason(error: Exception) -> str:
    """Return why an image does not decode, from the error that decoding raised."""
    # Pillow's message for unknown bytes ends with the address of a buffer, which differs in every run.
    text = str(error).split(" <_io.BytesIO")[0]
    return text or type(error).__name__


LEAVE_OUT = ", or leave it out with --allow-partial"
"""The advice about a damaged image that holds for a build, but not where published rows are built again."""


def unreadable_image(rows: pa.Table, number: int, path: str, error: Exception) -> BuildError:
    """Return the error for an image that cannot be read or is damaged."""
    where = image_place(rows, number, path)
    return BuildError(f"{where} cannot be used ({error}). Replace it with a good copy{LEAVE_OUT}.")


def image_place(rows: pa.Table, number: int, path: str) -> str:
    """Return where an image is, for messages: its file, and its id if the file holds many images."""
    source_id = rows["source_id"][number].as_py()
    return path if path.endswith(source_id.rpartition("/")[2]) else f"{path} ({source_id})"
