"""Files of images as they are compared, 32 x 32 and RGB, one after another without a header: 3,072 bytes a row.

A build decodes an image once, where it has its bytes, and keeps these pixels beside the record of the shard. A file
that later runs read ends with a *seal*, SHA-256 over the content digests of its rows and SHA-256 over the pixels. So
an index tells whether a file is of a split's rows, whoever wrote it and when; a file with another seal, or with pixels
that changed on the disk, is as good as none.

Tested by `tests/builders/duplicates/test_stored.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from builders.duplicates.distance import SIDE, Images
from builders.storage.byte_ranges import Reader
from builders.storage.files import atomic_path, require_space

ROW_BYTES = 3 * SIDE**2

_DIGEST_BYTES = hashlib.sha256().digest_size

_BLOCK = 1 << 20
"""Bytes of a file that are hashed at a time (ours)."""


@dataclass(frozen=True)
class Pixels:
    """Images in files: the path of each file, the first of its rows that is taken, and how many are, in order."""

    files: tuple[tuple[Path, int, int], ...]

    @property
    def rows(self) -> int:
        """Number of images."""
        return sum(rows for _, _, rows in self.files)

    def part(self, start: int, stop: int) -> Pixels:
        """Return images `start:stop`."""
        files, before = list[tuple[Path, int, int]](), 0
        for path, first, rows in self.files:
            low, high = max(start - before, 0), min(stop - before, rows)
            if low < high:
                files.append((path, first + low, high - low))
            before += rows
        return Pixels(tuple(files))

    def read(self) -> Images:
        """Read them, shape (n, 32, 32, 3); raises `BuildError` if a file is missing or too short."""
        images, start = np.empty((self.rows, SIDE, SIDE, 3), np.uint8), 0
        with Reader() as reader:
            for path, first, rows in self.files:
                reader.read_into(images[start : start + rows].reshape(-1).data, str(path), first * ROW_BYTES)
                start += rows
        return images


class PixelWriter:
    """Writes images into an open file as they come, and the seal behind the last."""

    def __init__(self, opened: IO[bytes]) -> None:
        self._opened: IO[bytes] | None = opened
        self._rows, self._pixels = hashlib.sha256(), hashlib.sha256()

    def add(self, image: Images, digest: str) -> None:
        """Add an image (32, 32, 3), of a row with a content digest."""
        if self._opened is not None:
            pixels = np.ascontiguousarray(image).data
            self._opened.write(pixels)
            self._pixels.update(pixels)
            self._rows.update(_line(digest))

    def give_up(self) -> None:
        """Leave the file empty, which is one without a seal, whatever is added."""
        if self._opened is not None:
            self._opened.seek(0)
            self._opened.truncate()
            self._opened = None

    def finish(self) -> None:
        """Write the seal."""
        if self._opened is not None:
            self._opened.write(self._rows.digest() + self._pixels.digest())


@contextlib.contextmanager
def pixel_writer(path: Path) -> Iterator[PixelWriter]:
    """Write a sealed file of pixels; it is there, complete, once the block has succeeded."""
    with atomic_path(path) as temporary, temporary.open("wb") as opened:
        writer = PixelWriter(opened)
        yield writer
        writer.finish()


def gathered(path: Path, places: Sequence[tuple[Path, int]]) -> Pixels:
    """Copy images, given by file and row, into one file without a seal."""
    with atomic_path(path) as temporary, temporary.open("wb") as opened, Reader() as reader:
        reader.expect((str(file), row * ROW_BYTES, ROW_BYTES) for file, row in places)
        for file, row in places:
            opened.write(reader.read(str(file), row * ROW_BYTES, ROW_BYTES))
    return Pixels(((path, 0, len(places)),))


def sealed_rows(path: Path) -> int | None:
    """Return how many rows a sealed file has by its size; None if there is no such file."""
    size = path.stat().st_size - 2 * _DIGEST_BYTES if path.is_file() else -1
    return None if size < 0 or size % ROW_BYTES else size // ROW_BYTES


def is_of(path: Path, digests: Iterable[str]) -> bool:
    """Whether a sealed file has the pixels of rows with some content digests, in their order, as they were written."""
    rows = sealed_rows(path)
    if rows is None:
        return False
    of_rows, of_pixels = hashlib.sha256(b"".join(map(_line, digests))), hashlib.sha256()
    end = rows * ROW_BYTES
    with Reader() as reader:
        seal = reader.read(str(path), end, 2 * _DIGEST_BYTES)
        if seal[:_DIGEST_BYTES] != of_rows.digest():
            return False
        for start in range(0, end, _BLOCK):
            of_pixels.update(reader.read(str(path), start, min(_BLOCK, end - start)))
    return seal[_DIGEST_BYTES:] == of_pixels.digest()


def _line(digest: str) -> bytes:
    return f"{digest}\n".encode()


def require_pixel_space(folder: Path, rows: int) -> None:
    """Raise `BuildError` if there is no room for the pixels of some rows in a folder for temporary files."""
    advice = "Set TMPDIR to a folder with space, and run the same command again."
    require_space(folder, rows * ROW_BYTES, f"Comparing {rows:,} images needs", advice)


def joined(parts: Iterable[Pixels]) -> Pixels:
    """Put pixels in files behind each other."""
    return Pixels(tuple(file for part in parts for file in part.files))
