"""Is an image the one that its row names, and does it open in the hands of `datasets`?

Tested by `tests/hf_scripts/checks/test_rows.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.duplicates.distance import SIDE
from builders.release import images
from hf_scripts.checks.problems import Problems


@dataclass(frozen=True)
class Picture:
    """A decoded image: `builders.release.images.pixel_sha256`, and its pixels (32, 32, 3) where it is of that size."""

    sha256: str
    pixels: npt.NDArray[np.uint8] | None


def pictures_of(rows: pa.RecordBatch, wanted: frozenset[str]) -> dict[str, Picture]:
    """Decode the images of some rows by id; one that does not decode is left out, and said by `check_images`."""
    found = {}
    encoded = pc.struct_field(rows.column("image"), "bytes")
    for row_id, data in zip(rows.column("id").to_pylist(), encoded, strict=True):
        if row_id in wanted and data.is_valid:
            with contextlib.suppress(*images.DECODE_ERRORS):
                image = images.decode(data.as_py())
                small = image.mode == "RGB" and image.size == (SIDE, SIDE)
                found[row_id] = Picture(images.pixel_sha256(image), np.asarray(image) if small else None)
    return found


def check_images(rows: pa.RecordBatch, path: str, first: int, problems: Problems, *, decode: bool) -> None:
    """Check the file name, the digest and, with `decode`, the decoding of every image.

    Args:
        rows: some rows of a shard.
        path: the shard, for messages.
        first: number of the first row in the shard.
        problems: where to add what is wrong.
        decode: decode as `datasets` does it. Without it nothing is decoded, and the digests of images that we made
            (which are over pixels) are not computed either.
    """
    column = rows.column("image")
    names = pc.struct_field(column, "path").to_pylist()
    stored, digests = rows.column("stored").to_pylist(), rows.column("content_sha256").to_pylist()
    with warnings.catch_warnings():
        # Pillow warns of odd metadata in thousands of ImageNet's files, which decode all the same.
        warnings.simplefilter("ignore")
        for i, value in enumerate(pc.struct_field(column, "bytes")):
            where = f"{path} row {first + i}"
            if not names[i] or "/" in names[i] or "\\" in names[i]:
                problems.add("image.path", f"{where}: expected a file name in image.path, found {names[i] or 'none'}")
            buffer = value.as_buffer()
            if buffer is None:
                problems.add("image missing", f"{where}: expected image bytes, found none")
            elif stored[i] != "pixels" or decode:
                _check_digest(buffer, stored[i], digests[i], where, problems)
                if decode:
                    _check_decoding(buffer, names[i], where, problems)


def _check_digest(buffer: pa.Buffer, stored: str, expected: str, where: str, problems: Problems) -> None:
    try:
        # The bytes' own digest needs no copy of them.
        found = (
            images.content_sha256("pixels", buffer.to_pybytes())
            if stored == "pixels"
            else hashlib.sha256(buffer).hexdigest()
        )
    except images.DECODE_ERRORS:
        return  # said below, with the reason
    if found != expected:
        problems.add("image digest", f"{where}: expected an image with content_sha256 {expected}, found {found}")


def _check_decoding(buffer: pa.Buffer, name: str | None, where: str, problems: Problems) -> None:
    from datasets import Image

    try:
        Image().decode_example({"bytes": buffer.to_pybytes(), "path": name})
    except images.DECODE_ERRORS as error:
        # Pillow's sentence for unknown bytes ends with the address of a buffer.
        reason = str(error).split(" <_io.BytesIO")[0] or type(error).__name__
        problems.add(
            "image decoding", f"{where}: expected an image that datasets decodes, found one it cannot: {reason}"
        )
