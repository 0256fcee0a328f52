"""Keeps what the check of a person's own images has decoded, so that shards are written without decoding them again.

A build of own folders looks at all images before it writes any, and decodes those that are not JPEGs, or all if asked
or if it will compare them all (`builders.pipeline.own_images`).
What became of an image that was decoded, and is stored as it is, stands in `.state/checked`: an entry under the digest
of its bytes, and its pixels as they are compared (`builders.duplicates.pixels`). Both files grow at their ends as the
check goes on, so a killed check goes on, too. A decoder's remarks are not kept, so an image with one is decoded again.

An entry has a checksum of its pixels and one of itself. So no order in which a disk wrote the files, nor a file
that is gone or changed, gives an image the pixels of another one: it is decoded again.

Tested by `tests/builders/duplicates/test_decoded_once.py`.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from builders.duplicates.distance import SIDE, Images, scaled
from builders.duplicates.pixels import ROW_BYTES
from builders.executors.base import keep_freed_memory
from builders.release import images
from builders.release.layout import Layout
from builders.release.remarks import RemarksOfThread, collect_remarks
from builders.storage.byte_ranges import Reader
from builders.storage.files import read_regular, require_space
from unknown_detection.durable import make_folder
from unknown_detection.words import quantity

_FOLDER = ".state/checked"
_ENTRIES, _PIXELS = "images", "pixels.rgb"

_NONE = -1
"""The row of an image without pixels: nobody compares it, or a finished build has removed them."""

# NumPy cuts zeros at the end of an S32, and compares it as if they were there.
_ENTRY = np.dtype([("content", "S32"), ("pixels", "S32"), ("row", "<i8"), ("checksum", "<u4"), ("of_entry", "<u4")])

_TOGETHER = 1024
"""Images that are written at a time (ours): 3 MB."""


class Found(NamedTuple):
    """What is known of an image: the digest of its pixels, empty if nobody asked, and it as it is compared or None."""

    pixels: str
    small: Images | None


@dataclass(frozen=True)
class CheckedImages:
    """The entries that a check left in a folder; `size` is that of their file, which tells when there are more.

    A worker reads them once (`builders.executors.base.once_per_worker`).
    """

    folder: Path
    size: int

    def __call__(self) -> _Entries:
        """Read the entries that were there when this was made."""
        return _Entries(self.folder, _read_entries(self.folder)[: self.size // _ENTRY.itemsize])


def checked_images(layout: Layout) -> CheckedImages | None:
    """Return what a check left in a release folder; None if there is nothing."""
    path = layout.inside(f"{_FOLDER}/{_ENTRIES}")
    return CheckedImages(path.parent, path.stat().st_size) if path.is_file() else None


def remove_checked_pixels(layout: Layout) -> None:
    """Remove the pixels of the images of a finished release, which has them beside its shards; the entries stay."""
    layout.inside(f"{_FOLDER}/{_PIXELS}").unlink(missing_ok=True)


class _Entries:
    """Entries by the digest of an image's bytes."""

    def __init__(self, folder: Path, entries: npt.NDArray[Any]) -> None:
        self._pixels, self._entries = folder / _PIXELS, entries
        contents = np.ascontiguousarray(entries["content"])
        self._order = np.argsort(contents, kind="stable").astype(np.int32)
        self._sorted = contents[self._order]

    def knows(self, digest: str, *, decoded: bool) -> bool:
        """Whether an image was checked, with `decoded` so that the digest of its pixels is known."""
        return self._number(digest, decoded=decoded) is not None

    def find(self, digest: str, reader: Reader, *, decoded: bool) -> Found | None:
        """Return what is known of an image; None if that is nothing, or with `decoded` no digest of pixels."""
        number = self._number(digest, decoded=decoded)
        if number is None:
            return None
        entry = self._entries[number]
        pixels = entry["pixels"].ljust(32, b"\0").hex() if entry["pixels"] else ""
        return Found(pixels, self._small(int(entry["row"]), int(entry["checksum"]), reader))

    def _number(self, digest: str, *, decoded: bool) -> int | None:
        content = np.array(bytes.fromhex(digest), "S32")
        first, stop = (int(np.searchsorted(self._sorted, content, side)) for side in ("left", "right"))
        for number in reversed(self._order[first:stop].tolist()):  # the last knows most
            _, pixels, row, _, of_entry = self._entries[number].tolist()
            if (pixels or not decoded) and _of_entry(bytes.fromhex(digest), pixels, row) == of_entry:
                return int(number)
        return None

    def _small(self, row: int, checksum: int, reader: Reader) -> Images | None:
        small = np.empty((SIDE, SIDE, 3), np.uint8)
        if row == _NONE:
            return None
        try:
            read = reader.read_some(small.reshape(-1).data, str(self._pixels), row * ROW_BYTES)
        except FileNotFoundError:
            return None
        return small if read == ROW_BYTES and zlib.crc32(small.data) == checksum else None


class ImageCheck:
    """Checks images in any threads as `images.check_image` does, and keeps those that it had to decode.

    With `decode` it decodes all; `compared` says whether their pixels are kept, too, and `ahead` that images are
    decoded for that alone. Images that are known from an earlier check are not decoded.
    """

    def __init__(self, folder: Path, *, decode: bool, compared: bool, ahead: bool = False) -> None:
        self._folder, self._decode, self._compared, self._ahead = folder, decode, compared, ahead
        self.remarks = RemarksOfThread()
        self._lock, self._entries, self._pixels = threading.Lock(), list[tuple[Any, ...]](), list[bytes]()
        entries, self._rows = _mended(folder)
        self._known, self._known_count = _Entries(folder, entries), len(entries)

    def require_room(self, count: int) -> None:
        """Raise `BuildError` if there is no room for what is kept of so many images, less those known already."""
        new = max(0, count - self._known_count)
        needed = new * (_ENTRY.itemsize + ROW_BYTES * self._compared)
        advice = "Free some, or give another --out, and run the same command again."
        require_space(self._folder, needed, f"What the check keeps of {quantity(new, 'image')} takes", advice)

    def __call__(self, data: bytes, digest: str) -> None:
        """Check an image, given by its bytes and their SHA-256; raises `UnreadableImageError` if it is damaged."""
        if self._known.knows(digest, decoded=self._decode):
            return
        self.remarks.heard = ""
        image, mended = images.checked(data, decode=self._decode or self._ahead)
        if image is None or mended is not None or self.remarks.heard:
            return
        pixels = bytes.fromhex(images.pixel_sha256(image)) if self._decode else b""
        small = b""
        if self._compared:
            try:
                small = scaled(image).tobytes()
            except images.DECODE_ERRORS:
                return  # whoever writes it finds it again, and says so
        with self._lock:
            row = self._rows + len(self._pixels) if small else _NONE
            content = bytes.fromhex(digest)
            self._entries.append((content, pixels, row, zlib.crc32(small), _of_entry(content, pixels, row)))
            self._pixels += [small] if small else []
            if len(self._entries) == _TOGETHER:
                self._write()

    def finish(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        # The pixels first: an entry whose pixels are not there would have the next ones, of which it has no checksum.
        for name, data in ((_PIXELS, b"".join(self._pixels)), (_ENTRIES, np.array(self._entries, _ENTRY).tobytes())):
            if data:
                make_folder(self._folder)
                with (self._folder / name).open("ab") as opened:
                    opened.write(data)
        self._rows += len(self._pixels)
        self._entries, self._pixels = [], []


@contextlib.contextmanager
def image_check(layout: Layout, *, decode: bool, compared: bool, ahead: bool = False) -> Iterator[ImageCheck]:
    """Check images for a release in a folder that is locked; what was checked is kept also if the block fails."""
    if ahead:
        keep_freed_memory()
    check = ImageCheck(layout.inside(_FOLDER), decode=decode, compared=compared, ahead=ahead)
    try:
        with collect_remarks(check.remarks):  # what is written tells of its remarks
            yield check
    finally:
        check.finish()


def _of_entry(content: bytes, pixels: bytes, row: int) -> int:
    return zlib.crc32(b"%s %s %d" % (content.ljust(32, b"\0"), pixels.ljust(32, b"\0"), row))


def _read_entries(folder: Path) -> npt.NDArray[Any]:
    path = folder / _ENTRIES
    data = read_regular(path) if path.exists() else b""
    return np.frombuffer(data[: len(data) // _ENTRY.itemsize * _ENTRY.itemsize], _ENTRY)


def _mended(folder: Path) -> tuple[npt.NDArray[Any], int]:
    """Return the entries and the number of rows of pixels, both files cut to what a killed run has written whole."""
    entries, path = _read_entries(folder), folder / _PIXELS
    rows = path.stat().st_size // ROW_BYTES if path.exists() else 0
    for name, size in ((_ENTRIES, entries.nbytes), (_PIXELS, rows * ROW_BYTES)):
        if (folder / name).exists() and (folder / name).stat().st_size != size:
            with (folder / name).open("r+b") as opened:
                opened.truncate(size)
    lost = entries["row"] >= rows
    if lost.any():
        entries = entries.copy()
        for number in np.flatnonzero(lost):
            content, pixels, row, checksum, of_entry = entries[number].tolist()
            if _of_entry(content, pixels, row) == of_entry:  # one that changed stays so
                entries[number] = content, pixels, _NONE, checksum, _of_entry(content, pixels, _NONE)
        (folder / _ENTRIES).write_bytes(entries.tobytes())
    return entries, rows
