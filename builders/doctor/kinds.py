"""Says how one image differs from another, and what a single image shows of itself.

`KINDS` has every kind of difference by which `doctor` and `compare` speak. Tested by
`tests/builders/doctor/test_kinds.py`.
"""

from __future__ import annotations

import hashlib
import io
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps

from builders.errors import one_line
from builders.release import images
from builders.release.jpeg import looks_whole, read_jpeg_header
from builders.sources.base import Shape

Kind = Literal[
    "missing",
    "extra",
    "wrong class",
    "under another name",
    "doubled",
    "truncated",
    "unreadable",
    "resized",
    "grey",
    "turned",
    "re-encoded",
    "part of the picture",
    "other picture",
    "other bytes",
    "differs",
]
"""A kind of difference.

`other bytes`: of equal pixels. `part of the picture`: equal but for some parts, as where faces were blurred.
`differs`: another digest, and no pixels at hand to tell how. The others say it themselves.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)

Picture = bytes | npt.NDArray[np.uint8]
"""An image as it is stored: an encoded file, or pixels."""

_ALIKE = 12.0
"""Mean difference of two images, of 255 levels, up to which they show the same picture (ours). JPEG of quality 30
changes photographs by 3 to 8; two photographs differ by 50 and more."""

_ALIKE_RESIZED = 20.0
"""The same where one was resized by an unknown filter (ours)."""

_BLOCK = 16
"""Pixels of a side of the blocks by which changed parts of a picture are found (ours)."""

_CHANGED = 6.0
"""Mean difference of a block that was changed by more than another encoding of good quality (ours)."""

_GREY = 2
"""Levels by which the channels of a grey image saved as a colour JPEG may differ (ours; libjpeg rounds)."""

_TURNS: tuple[Image.Transpose, ...] = (
    Image.Transpose.ROTATE_90,
    Image.Transpose.ROTATE_180,
    Image.Transpose.ROTATE_270,
    Image.Transpose.FLIP_LEFT_RIGHT,
    Image.Transpose.FLIP_TOP_BOTTOM,
    Image.Transpose.TRANSPOSE,
    Image.Transpose.TRANSVERSE,
)


class Facts(NamedTuple):
    """What an image shows of itself: the SHA-256 of its bytes (or of its pixels, for arrays), and its header.

    `problem` is `truncated`, `unreadable` or empty, with a reason. Without its bytes the digest is empty. `bytes` are
    those of the file, 0 for arrays and where they are not known.
    """

    digest: bytes
    format: str
    width: int
    height: int
    channels: int
    orientation: int
    problem: str = ""
    reason: str = ""
    bytes: int = 0


def image_facts(data: bytes, *, digested: bool = True) -> Facts:
    """Return the facts of an encoded image. A JPEG is decoded only if its structure looks wrong.

    Without `digested` the bytes may be the start of an image, and what lies behind is not missed.
    """
    digest = hashlib.sha256(data).digest() if digested else b""
    view = memoryview(data)
    header = read_jpeg_header(view)
    if header is not None and header.is_plain and header.is_usual and (not digested or looks_whole(view, header)):
        return Facts(digest, "JPEG", *header.read.size, len(header.read.components), 1)
    try:
        opened = Image.open(io.BytesIO(data))
        images.refuse_undecodable(opened)
        orientation = opened.getexif().get(ExifTags.Base.Orientation)
    except images.DECODE_ERRORS as error:
        images.require_memory(data)
        return Facts(digest, "", 0, 0, 0, 1, _problem(error), _reason(error))
    turned = orientation if isinstance(orientation, int) and 2 <= orientation <= 8 else 1
    facts = Facts(digest, opened.format or "", *opened.size, len(opened.getbands()), turned)
    if not digested or (header is not None and looks_whole(view, header)):
        return facts
    try:
        images.decode_or_mend(data)
    except images.UnreadableImageError as error:
        return facts._replace(problem=_problem(error), reason=_reason(error))
    return facts


def array_facts(pixels: npt.NDArray[np.uint8]) -> list[Facts]:
    """Return the facts of many images of one size that are pixels, RGB or grey; see `images.array_sha256`."""
    channels, (height, width) = pixels.shape[3] if pixels.ndim == 4 else 1, pixels.shape[1:3]
    return [Facts(bytes.fromhex(digest), "", width, height, channels, 1) for digest in images.array_sha256(pixels)]


def as_array(image: Image.Image, shape: Shape) -> npt.NDArray[np.uint8]:
    """Return the pixels of an image of a source of arrays, RGB or grey."""
    return np.asarray(image.convert("RGB" if len(shape) == 3 else "L"), np.uint8)


def decoded(picture: Picture) -> Image.Image:
    """Decode a picture as users see it; raises `UnreadableImageError`."""
    return images.decode_or_mend(picture)[0] if isinstance(picture, bytes) else Image.fromarray(picture)


def explain(ours: Picture, theirs: Picture) -> tuple[Kind, str]:
    """Say how a picture differs from the one that it should be: the kind, and details in words."""
    try:
        mine = decoded(ours)
    except images.UnreadableImageError as error:
        return _problem(error), _reason(error)
    try:
        other = decoded(theirs)
    except images.UnreadableImageError as error:
        return _problem(error), f"{_reason(error)} (in the other one)"
    if images.pixel_sha256(mine) == images.pixel_sha256(other):
        return "other bytes", "of equal pixels"
    a, b = mine.convert("RGB"), other.convert("RGB")
    if a.size == b.size and (found := _of_one_size(a, b)) is not None:
        return found
    for turn in _TURNS:
        turned = b.transpose(turn)
        if turned.size == a.size and mean_difference(a, turned) <= _ALIKE:
            how = turn.name.lower().replace("_", " ")
            return "turned", f"{how}; pixels differ by {mean_difference(a, turned):.1f} of 255 in the mean"
    if a.size != b.size:
        far = mean_difference(a, b.resize(a.size, Image.Resampling.BOX))
        sizes = f"{a.width} x {a.height} pixels, not {b.width} x {b.height}"
        grey = ", and grey" if _is_grey(a) and not _is_grey(b) else ""
        if grey:
            far = min(far, mean_difference(a, ImageOps.grayscale(b).convert("RGB").resize(a.size)))
        if far <= _ALIKE_RESIZED:
            return "resized", f"{sizes}{grey}; otherwise they differ by {far:.1f} of 255 in the mean"
        return "other picture", f"{sizes}; they differ by {far:.1f} of 255 in the mean"
    return "other picture", f"pixels differ by {mean_difference(a, b):.1f} of 255 in the mean"


def explain_by_facts(ours: Facts, width: int, height: int, channels: int) -> tuple[Kind, str]:
    """Say as much as two headers tell; `channels` 0 is unknown, and so are sizes of 0."""
    if ours.problem:
        return ("truncated" if ours.problem == "truncated" else "unreadable"), ours.reason
    if width and (ours.width, ours.height) != (width, height):
        if (ours.width, ours.height) == (height, width):
            return "turned", f"{ours.width} x {ours.height} pixels, not {width} x {height}"
        return "resized", f"{ours.width} x {ours.height} pixels, not {width} x {height}"
    if ours.channels == 1 and channels > 1:
        return "grey", "one channel, not three"
    same = f", of the same size, {width} x {height}" if width else ""
    return "differs", f"another SHA-256{same}"


def mean_difference(a: Image.Image, b: Image.Image) -> float:
    """Return the mean absolute difference of the pixels of two images of one size and mode."""
    return float(np.abs(np.asarray(a, np.int16) - np.asarray(b, np.int16)).mean())


def _of_one_size(a: Image.Image, b: Image.Image) -> tuple[Kind, str] | None:
    """Explain two RGB images of one size; None if they do not show the same picture this way up."""
    difference = np.abs(np.asarray(a, np.int16) - np.asarray(b, np.int16))
    far, most = float(difference.mean()), int(difference.max())
    if _is_grey(a) and not _is_grey(b) and mean_difference(a, ImageOps.grayscale(b).convert("RGB")) <= _ALIKE:
        return "grey", f"pixels differ by {far:.1f} of 255 in the mean, and not more from the other's grey"
    changed = _changed_blocks(difference)
    if 0 < changed < 0.5 and far <= _ALIKE and most > 40:
        calm = float(np.median(difference.mean(axis=2)))
        if calm <= 1:
            return (
                "part of the picture",
                f"{changed:.0%} of it changed, as where faces were blurred; {most} of 255 at most",
            )
    if far <= _ALIKE:
        return "re-encoded", f"pixels differ by {far:.1f} of 255 in the mean, {most} at most"
    return None


def _changed_blocks(difference: npt.NDArray[np.int16]) -> float:
    height, width = (side // _BLOCK for side in difference.shape[:2])
    if not height or not width:
        return 0.0
    cut = difference[: height * _BLOCK, : width * _BLOCK].mean(axis=2)
    blocks = cut.reshape(height, _BLOCK, width, _BLOCK).mean(axis=(1, 3))
    return float((blocks > _CHANGED).mean())


def _is_grey(image: Image.Image) -> bool:
    pixels = np.asarray(image, np.int16)
    return int(np.abs(pixels - pixels[:, :, :1]).max()) <= _GREY


def _problem(error: Exception) -> Kind:
    """Say which kind of damage made decoding fail, by the words of Pillow and of `images`."""
    text = str(error).lower()
    return "truncated" if any(word in text for word in ("truncated", "zero bytes", "not enough")) else "unreadable"


def _reason(error: Exception) -> str:
    return one_line(images.decode_reason(error), 100)
