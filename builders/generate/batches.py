"""Images that are made: each strip of a split's plan becomes one pack of PNGs, which shards are then written from.

Making is the slow half of such a split, and a strip is small, so that workers share the work of a single shard evenly
and a killed run loses little. A pack is removed when the release is done; what is known of its images stays beside it,
because a later run needs it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from builders.executors.base import ONE_CORE, Counted, Progress, Resources
from builders.generate import png
from builders.generate.registry import TRANSFORMS
from builders.generate.transform import AS_PNG, SIDE, Transform
from builders.release import images
from builders.release.images import unreadable
from builders.sources.broken import known_broken
from builders.storage.atomic import replacing
from builders.storage.byte_ranges import PACK_SUFFIX, Reader

MADE_SCHEMA = pa.schema([("size", pa.int64()), ("content_sha256", pa.string()), ("unreadable", pa.string())])
"""What is known of a strip's images: bytes in the pack, digest over the pixels, and why one could not be made."""

_ARRAY_FORMS = ("rgb32", "planar32")

_READ_TOGETHER = 64
"""Arrays that are read before they are turned: 200 KB, which stay in a core's cache."""

_STRIP_BYTES = 64 * 1024 * 1024
"""What a strip costs at most: about two seconds of decoding JPEGs."""

_IMAGE_COST = 32 * 1024
"""What an image costs beside its bytes, so that a strip of tiny images has at most 2,048 of them."""


@dataclass(frozen=True)
class Strip:
    """The rows `start:stop` of a split's plan and the pack that their images are made into."""

    start: int
    stop: int
    pack: Path

    @property
    def record(self) -> Path:
        """The file with `MADE_SCHEMA`'s columns, a row an image, whose existence says that the strip was made."""
        return self.pack.with_suffix(".made.parquet")


def strips(table: pa.Table, transform: Transform, name: str, staging: Path) -> list[Strip]:
    """Cut a split's plan into strips of equal cost.

    Args:
        table: the plan's columns and `size`, one row an image.
        transform: what makes the images.
        name: of the split, for the packs' names.
        staging: folder of the packs.

    Returns:
        Strips in the order of the rows. A pack is named after its images and the transform, so that a rerun finds it
        and other images get another.
    """
    ids = table["id"].to_pylist()
    if not ids:
        return []
    sizes = table["size"].to_numpy()
    costs = np.cumsum(sizes + _IMAGE_COST)
    count = -(-int(costs[-1]) // _STRIP_BYTES)
    starts = sorted({0, *(int(np.searchsorted(costs, int(costs[-1]) * i // count)) for i in range(1, count))})
    return [
        Strip(start, stop, staging / f"{name}-{_key(transform, ids[start:stop], sizes[start:stop])}{PACK_SUFFIX}")
        for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True)
    ]


def _key(transform: Transform, ids: Sequence[str], sizes: npt.NDArray[np.int64]) -> str:
    lines = "\n".join([transform.name, *ids, ""])
    return hashlib.sha256(lines.encode() + sizes.tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class MakeTask:
    """Make one strip by the transform of that name.

    `plan` is an Arrow IPC file with the plan's columns and `root`, `file`, `offset`, `size`, `form`; `roots` maps the
    names in `root` to folders.
    """

    plan: Path
    strip: Strip
    roots: Mapping[str, str]
    transform: str
    drop_unreadable: bool
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> None:
        """Make the images and write the pack, then what is known of them.

        Raises:
            BuildError: an image is missing or unreadable (unless `drop_unreadable`), or the disk refuses.
        """
        with pa.memory_map(str(self.plan)) as source:
            rows = pa.ipc.open_file(source).read_all().slice(self.strip.start, self.strip.stop - self.strip.start)
            with Reader() as reader:
                pixels, reasons = self._pixels(rows, reader, progress)
        digests = images.rgb_sha256(pixels)
        encoded = png.encode(pixels)
        if any(reasons):
            made = np.array([not reason for reason in reasons])
            encoded = encoded[made]
            digests = [digest if not reason else "" for digest, reason in zip(digests, reasons, strict=True)]
        sizes = [0 if reason else encoded.shape[1] for reason in reasons]
        with replacing(self.strip.pack) as temporary, temporary.open("wb", buffering=0) as sink:
            sink.write(encoded.data)
        known = {"size": sizes, "content_sha256": digests, "unreadable": reasons}
        with replacing(self.strip.record) as temporary:
            pq.write_table(pa.table(known, MADE_SCHEMA), temporary, compression="zstd")

    def _pixels(self, rows: pa.Table, reader: Reader, progress: Progress) -> tuple[npt.NDArray[np.uint8], list[str]]:
        """The RGB pixels of every image of the strip, and for each why it could not be made (empty where it was)."""
        transform = TRANSFORMS[self.transform]
        width, height = transform.size
        pixels = np.zeros((rows.num_rows, height, width, 3), np.uint8)
        reasons = [""] * rows.num_rows
        # Nothing is to be done to these but to read them.
        arrays = np.zeros(rows.num_rows, bool)
        if transform is AS_PNG:
            arrays = pc.is_in(rows["form"], pa.array(_ARRAY_FORMS)).to_numpy()
            self._read_arrays(rows, np.flatnonzero(arrays), pixels, reader, progress)
        left = np.flatnonzero(~arrays)
        known = known_broken(rows)
        count = Counted(len(left), progress)
        columns = (rows[name].take(pa.array(left)).to_pylist() for name in _Place._fields)
        for number, values in zip(left.tolist(), zip(*columns, strict=True), strict=True):
            place = _Place(*values)
            path = os.path.join(self.roots[place.root], place.file)  # noqa: PTH118 - called for every image
            data = bytearray(place.size)
            if place.form != "none":
                reader.read_into(memoryview(data), path, place.offset)
            try:
                pixels[number] = np.asarray(transform.apply(_source_image(place, bytes(data)), place.id))
            except images.UnreadableImageError as error:
                if not self.drop_unreadable and number not in known:
                    raise unreadable(rows, number, path, error) from error
                reasons[number] = str(error)
            count.one(place.size)
        return pixels, reasons

    def _read_arrays(
        self,
        rows: pa.Table,
        numbers: npt.NDArray[np.int64],
        pixels: npt.NDArray[np.uint8],
        reader: Reader,
        progress: Progress,
    ) -> None:
        """Read images that a source has as arrays, a container at a time."""
        flat = pixels.reshape(len(pixels), -1)
        containers = rows.select(["root", "file", "form"]).append_column("number", pa.array(np.arange(rows.num_rows)))
        grouped = containers.take(pa.array(numbers)).group_by(["root", "file", "form"], use_threads=False)
        offsets = rows["offset"].to_numpy()
        for container in grouped.aggregate([("number", "list")]).to_pylist():
            inside = container["number_list"]
            path = str(Path(self.roots[container["root"]], container["file"]))
            for first in range(0, len(inside), _READ_TOGETHER):
                some = inside[first : first + _READ_TOGETHER]
                reader.read_rows(flat, some, path, offsets[some].tolist())
                if container["form"] == "planar32":
                    pixels[some] = _interleaved(flat[some])
                progress(len(some), flat[some].nbytes)


class _Place(NamedTuple):
    id: str
    root: str
    file: str
    offset: int
    size: int
    form: str


def _source_image(place: _Place, data: bytes) -> Image.Image | None:
    if place.form == "none":
        return None
    if place.form in _ARRAY_FORMS:
        array = np.frombuffer(data, np.uint8).reshape(1, SIDE, SIDE, 3)
        return Image.fromarray((_interleaved(array) if place.form == "planar32" else array)[0])
    return images.decode_or_mend(data)[0]


def _interleaved(arrays: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Images that are stored as a plane for each colour, as rows of pixels; shape (n, 32, 32, 3)."""
    planes = arrays.reshape(-1, 3, SIDE, SIDE)
    pixels = np.empty((len(planes), SIDE, SIDE, 3), np.uint8)
    # Plane by plane, which is five times faster than transposing all axes together.
    for colour in range(3):
        pixels[..., colour] = planes[:, colour]
    return pixels


def known_of(strip_list: Sequence[Strip]) -> pa.Table:
    """What is known of a split's made images, row by row: `MADE_SCHEMA`, and `file` and `offset` in the packs."""
    parts = []
    for strip in strip_list:
        known = pq.ParquetFile(strip.record).read()
        sizes = known["size"].to_numpy()
        known = known.append_column("file", pa.repeat(strip.pack.name, known.num_rows))
        parts.append(known.append_column("offset", pa.array(np.cumsum(sizes) - sizes)))
    schema = MADE_SCHEMA.append(pa.field("file", pa.string())).append(pa.field("offset", pa.int64()))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def read_pixels(table: pa.Table, staging: Path) -> npt.NDArray[np.uint8]:
    """Decode the made images of a split.

    Args:
        table: columns `file`, `offset`, `size`; their packs must be there.
        staging: folder of the packs.

    Returns:
        Shape (n, 32, 32, 3).
    """
    pixels = np.zeros((table.num_rows, SIDE, SIDE, 3), dtype=np.uint8)
    opened: dict[str, memoryview] = {}
    places = zip(*(table[name].to_pylist() for name in ("file", "offset", "size")), strict=True)
    for number, (file, offset, size) in enumerate(places):
        if file not in opened:
            opened = {file: memoryview((staging / file).read_bytes())}
        pixels[number] = np.asarray(images.decode(bytes(opened[file][offset : offset + size])))
    return pixels


def made_table(plan: pa.Table, strip_list: Sequence[Strip], root: str) -> pa.Table:
    """A plan whose images are in packs: its own columns, where the PNGs are, and what is known of them."""
    known = known_of(strip_list)
    table = plan.append_column("root", pa.repeat(root, plan.num_rows))
    for name in known.column_names:
        table = table.append_column(name, known[name])
    return table
