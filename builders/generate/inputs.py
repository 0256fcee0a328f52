"""Reads the source images of generated images, and computes a digest of each.

The digest of an image file is the SHA-256 of its bytes; with a companion, of the bytes of both, joined. That of an
array is `builders.release.images.rgb_sha256`, which does not depend on how a copy of the source stores it. It is empty
if there is no source image.

Tested by `tests/builders/generate/test_task.py`.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.executors.base import Progress
from builders.generate.arrays import SIDE
from builders.generate.contract import Companion, SourceImage
from builders.release import images
from builders.release.schema import Value
from builders.storage.byte_ranges import Reader

_ARRAY = "rgb32"

_READ_TOGETHER = 64
"""Arrays that are read at a time: 200 KB."""


_COLUMNS = ("id", "class_id", "class_name", "root", "file", "offset", "size", "form")

COMPANION_COLUMNS = ("companion_root", "companion_file", "companion_offset", "companion_size")
"""Columns of a plan whose generator takes companions: where their bytes lie."""

COMPANION_VALUE = "companion_value_"
"""Prefix of the columns of such a plan with the companions' values."""


class Inputs:
    """The source images of some rows of a plan.

    Args:
        rows: `id`, `class_id`, `class_name`, `root`, `file`, `offset`, `size` and `form`, and `COMPANION_COLUMNS`
            with the companions' values if the generator is given companions.
        roots: the folder of each name in `root`.
        reader: reads the files.
    """

    def __init__(self, rows: pa.Table, roots: Mapping[str, str], reader: Reader) -> None:
        self._rows, self._roots, self._reader = rows, roots, reader

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    @functools.cached_property
    def _places(self) -> list[dict[str, Any]]:
        columns = (*_COLUMNS, *(COMPANION_COLUMNS if self._has_companions else ()))
        places: list[dict[str, Any]] = self._rows.select(columns).to_pylist()
        return places

    @functools.cached_property
    def _has_companions(self) -> bool:
        return COMPANION_COLUMNS[0] in self._rows.column_names

    @functools.cached_property
    def _companion_values(self) -> list[dict[str, Value]]:
        names = [name for name in self._rows.column_names if name.startswith(COMPANION_VALUE)]
        table = self._rows.select(names).rename_columns([name.removeprefix(COMPANION_VALUE) for name in names])
        values: list[dict[str, Value]] = table.to_pylist()
        return values

    def path(self, number: int) -> str:
        """Return the path of an image's file."""
        place = self._places[number]
        return self._full_path(place["root"], place["file"])

    def _full_path(self, root: str, file: str) -> str:
        return os.path.join(self._roots[root], file)  # noqa: PTH118 - called for every image

    def _companion_range(self, number: int) -> tuple[str, int, int]:
        root, file, offset, size = (self._places[number][name] for name in COMPANION_COLUMNS)
        return self._full_path(root, file), offset, size

    def announce(self) -> None:
        """Announce to the reader that all images will be read in their order, each with its companion."""
        reads = []
        for number, place in enumerate(self._places):
            if place["form"] != "none":
                reads.append((self.path(number), place["offset"], place["size"]))
            if self._has_companions:
                reads.append(self._companion_range(number))
        self._reader.expect(reads)

    def size(self, number: int) -> int:
        """Return the number of bytes of an image."""
        return int(self._places[number]["size"])

    def read(self, number: int) -> tuple[bytes, str]:
        """Read an image's bytes and compute its digest.

        Raises:
            BuildError: the file cannot be read or has too few bytes.
        """
        place = self._places[number]
        if place["form"] == "none":
            return b"", ""
        data = self._reader.read(self.path(number), place["offset"], place["size"])
        if place["form"] == _ARRAY:
            return data, images.rgb_sha256(_pixels(data))[0]
        companion = self._companion(number)
        return data, hashlib.sha256(data + companion.data if companion else data).hexdigest()

    def _companion(self, number: int) -> Companion | None:
        """Read the companion of an image, if it has one."""
        if not self._has_companions:
            return None
        return Companion(self._reader.read(*self._companion_range(number)), self._companion_values[number])

    def decode(self, number: int, data: bytes) -> SourceImage:
        """Decode an image as the input of a generator.

        Raises:
            UnreadableImageError: the image does not decode.
        """
        place, companion, image = self._places[number], self._companion(number), None
        if companion is None and place["form"] == _ARRAY:
            image = Image.fromarray(_pixels(data)[0])
        elif companion is None and place["form"] != "none":
            image = images.decode_or_mend(data)[0]
        return SourceImage(place["id"], place["class_id"], place["class_name"], image, data, companion)

    def are_arrays(self) -> bool:
        """Whether all of the images are 32 x 32 arrays."""
        return bool(pc.all(pc.equal(self._rows["form"], _ARRAY)).as_py())

    def arrays(self, progress: Progress) -> npt.NDArray[np.uint8]:
        """Read images that are arrays, a container at a time; shape (n, 32, 32, 3).

        Raises:
            BuildError: a file cannot be read or has too few bytes.
        """
        pixels = np.empty((len(self), SIDE, SIDE, 3), np.uint8)
        flat = pixels.reshape(len(self), -1)
        offsets = self._rows["offset"].to_numpy()
        numbered = self._rows.select(["root", "file"]).append_column("number", pa.array(np.arange(len(self))))
        grouped = numbered.group_by(["root", "file"], use_threads=False)
        for container in grouped.aggregate([("number", "list")]).to_pylist():
            numbers = container["number_list"]
            path = self._full_path(container["root"], container["file"])
            self._reader.expect((path, offset, flat.shape[1]) for offset in offsets[numbers].tolist())
            for first in range(0, len(numbers), _READ_TOGETHER):
                batch = numbers[first : first + _READ_TOGETHER]
                self._reader.read_rows(flat, batch, path, offsets[batch].tolist())
                progress(len(batch), flat[batch].nbytes)
        return pixels


def _pixels(data: bytes) -> npt.NDArray[np.uint8]:
    """Return the pixels of one array, shape (1, 32, 32, 3)."""
    return np.frombuffer(data, np.uint8).reshape(1, SIDE, SIDE, 3)
