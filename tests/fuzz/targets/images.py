"""Encoded images."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from builders.release.jpeg import has_hole, looks_whole, read_header
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


def structure(folder: Path) -> tuple[bool, bool] | None:
    """What can be seen of a JPEG without decoding it."""
    data = (folder / "x.jpg").read_bytes()
    header = read_header(data)
    return None if header is None else (has_hole(data, header), looks_whole(memoryview(data), header))


TARGETS = (Target("jpeg-structure", "x.jpg", jpegs, structure, refuses=False),)
