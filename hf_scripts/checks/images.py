"""Checks each image against its row: file name, digest, and decoding by `datasets`.

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

from builders.duplicates.distance import scaled
from builders.release import images
from hf_scripts.checks.problems import Problems


@dataclass(frozen=True)
class DecodedImage:
    """A decoded image: its `builders.release.images.pixel_sha256`, and its pixels scaled to (32, 32, 3)."""

    sha256: str
    pixels: npt.NDArray[np.uint8]


def decode_rows(rows: pa.RecordBatch, wanted: frozenset[str]) -> dict[str, DecodedImage]:
    """Decode the images of some rows, by id. Those that do not decode are omitted; `check_images` reports them."""
    found = {}
    encoded = pc.struct_field(rows.column("image"), "bytes")
    for row_id, data in zip(rows.column("id").to_pylist(), encoded, strict=True):
        if row_id in wanted and data.is_valid:
            with contextlib.suppress(*images.DECODE_ERRORS):
                image = images.decode(data.as_py())
                found[row_id] = DecodedImage(images.pixel_sha256(image), scaled(image))
    return found


def check_images(
    rows: pa.RecordBatch, path: str, first: int, problems: Problems, *, decode: bool, prepared: int = 0
) -> None:
    """Check the file name, the digest and, with `decode`, the decoding of every image.

    Args:
        rows: some rows of a shard.
        path: the shard, for messages.
        first: number of the first row in the shard.
        problems: collects the problems.
        decode: decode as `datasets` does. Without it no image is decoded, so the digests of generated images, which
            are over pixels, are not compared either.
        prepared: width and height that decoded images must have; 0 for any.
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
                problems.add("image.path", f"{where}: image.path is {names[i] or 'empty'}, not a file name")
            buffer = value.as_buffer()
            if buffer is None:
                problems.add("image missing", f"{where}: has no image bytes")
            elif stored[i] not in images.BY_PIXELS or decode:
                _check_digest(buffer, stored[i], digests[i], where, problems)
                if decode:
                    _check_decoding(buffer, names[i], where, problems, prepared)


def _check_digest(buffer: pa.Buffer, stored: str, expected: str, where: str, problems: Problems) -> None:
    try:
        # A digest over the bytes needs no copy of them.
        found = (
            images.content_sha256("pixels", buffer.to_pybytes())
            if stored in images.BY_PIXELS
            else hashlib.sha256(buffer).hexdigest()
        )
    except images.DECODE_ERRORS:
        return  # reported with the reason by _check_decoding
    if found != expected:
        problems.add("image digest", f"{where}: the image has the digest {found}, not {expected} as in content_sha256")


def _check_decoding(buffer: pa.Buffer, name: str | None, where: str, problems: Problems, prepared: int) -> None:
    from datasets import Image

    try:
        size = Image().decode_example({"bytes": buffer.to_pybytes(), "path": name}).size
    except images.DECODE_ERRORS as error:
        # Pillow's message for unknown bytes ends with the address of a buffer.
        reason = str(error).split(" <_io.BytesIO")[0] or type(error).__name__
        problems.add("image decoding", f"{where}: datasets cannot decode the image: {reason}")
        return
    if prepared and size != (prepared, prepared):
        problems.add(
            "image size",
            f"{where}: the image has {size[0]} x {size[1]} pixels in a split prepared for {prepared} x {prepared}",
        )
