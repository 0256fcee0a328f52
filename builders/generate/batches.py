"""Batches: a split's plan cut into pieces of equal cost, each with a pack of PNGs that shards are then written from.

Making images is the slow half of such a split, and a batch is small, so that workers share the work of a single shard
evenly and a killed run loses little. A pack is removed when the release is done; its record stays beside it, because a
later run needs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from builders.generate.arrays import SIDE
from builders.generate.contract import Generator
from builders.release import images
from builders.release.columns import Column
from builders.storage.byte_ranges import PACK_SUFFIX

RECORD_SCHEMA = pa.schema(
    [("size", pa.int64()), ("content_sha256", pa.string()), ("unreadable", pa.string()), ("input_sha256", pa.string())]
)
"""What a record says of each image, beside the generator's columns: bytes in the pack, digest over the pixels, why
there is none, and the digest of what it was made from (`builders.generate.inputs`)."""

_BATCH_BYTES = 64 * 1024 * 1024
"""What a batch costs at most, in bytes read and pixels made: about two seconds of decoding JPEGs."""

_IMAGE_COST = 32 * 1024
"""What an image costs beside its bytes, so that a batch of tiny images has less than 2,048 of them."""


@dataclass(frozen=True)
class Batch:
    """The rows `start:stop` of a split's plan and the pack that their images are made into."""

    start: int
    stop: int
    pack: Path

    @property
    def record(self) -> Path:
        """The file that says what was made, a row an image; it exists when the batch is done."""
        return self.pack.with_suffix(".made.parquet")


def cut(table: pa.Table, generator: Generator, name: str, staging: Path) -> list[Batch]:
    """Cut a split's plan into batches of equal cost.

    Args:
        table: the plan's columns and `size`, one row an image.
        generator: what makes the images.
        name: of the split, for the packs' names.
        staging: folder of the packs.

    Returns:
        Batches in the order of the rows. A pack is named after its images and the generator's identity, so that a
        rerun finds it and other images get another.
    """
    ids = table["id"].to_pylist()
    if not ids:
        return []
    sizes = table["size"].to_numpy()
    costs = np.cumsum(sizes + generator.nominal_bytes + _IMAGE_COST)
    count = -(-int(costs[-1]) // _BATCH_BYTES)
    starts = sorted({0, *(int(np.searchsorted(costs, int(costs[-1]) * i // count)) for i in range(1, count))})
    identity = json.dumps(generator.identity(), sort_keys=True)
    return [
        Batch(start, stop, staging / f"{name}-{_key(identity, ids[start:stop], sizes[start:stop])}{PACK_SUFFIX}")
        for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True)
    ]


def _key(identity: str, ids: Sequence[str], sizes: npt.NDArray[np.int64]) -> str:
    lines = "\n".join([identity, *ids, ""])
    return hashlib.sha256(lines.encode() + sizes.tobytes()).hexdigest()[:16]


def record_schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns of the records of a generator that has these."""
    schema = RECORD_SCHEMA
    for column in columns:
        schema = schema.append(pa.field(column.name, column.arrow))
    return schema


def read_records(batches: Sequence[Batch], columns: Iterable[Column] = ()) -> pa.Table:
    """What is known of a split's images, row by row: the records' columns, and `file` and `offset` in the packs."""
    schema = record_schema(columns).append(pa.field("file", pa.string())).append(pa.field("offset", pa.int64()))
    parts = []
    for batch in batches:
        known = pq.ParquetFile(batch.record).read()
        sizes = known["size"].to_numpy()
        known = known.append_column("file", pa.repeat(batch.pack.name, known.num_rows))
        parts.append(known.append_column("offset", pa.array(np.cumsum(sizes) - sizes)))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def generated_table(plan: pa.Table, batches: Sequence[Batch], root: str, columns: Iterable[Column] = ()) -> pa.Table:
    """A plan whose images are in packs: its own columns, where the PNGs are, and what is known of them."""
    known = read_records(batches, columns).drop_columns("input_sha256")
    table = plan.append_column("root", pa.repeat(root, plan.num_rows))
    for name in known.column_names:
        table = table.append_column(name, known[name])
    return table


def read_pixels(table: pa.Table, staging: Path) -> npt.NDArray[np.uint8]:
    """Decode generated images of one size.

    Args:
        table: columns `file`, `offset`, `size`; their packs must be there.
        staging: folder of the packs.

    Returns:
        Shape (n, height, width, 3); (0, 32, 32, 3) for no images.
    """
    pixels = np.zeros((0, SIDE, SIDE, 3), dtype=np.uint8)
    opened: dict[str, memoryview] = {}
    places = zip(*(table[name].to_pylist() for name in ("file", "offset", "size")), strict=True)
    for number, (file, offset, size) in enumerate(places):
        if file not in opened:
            opened = {file: memoryview((staging / file).read_bytes())}
        image = np.asarray(images.decode(bytes(opened[file][offset : offset + size])))
        if number == 0:
            pixels = np.zeros((table.num_rows, *image.shape), dtype=np.uint8)
        if image.shape != pixels.shape[1:]:
            raise ValueError(f"image {number} has the shape {image.shape} and not {pixels.shape[1:]}")
        pixels[number] = image
    return pixels
