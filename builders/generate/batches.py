"""Batches of generated images: slices of equal cost of a split's plan, each with a pack of PNGs to write shards from.

Generating images takes most of the time of such a split. Batches are smaller than shards, so that workers share the
work of a single shard evenly and a killed run loses little. A pack is removed when the release is done; its record
stays, because a later run needs it.
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

from builders.generate.arrays import SIDE
from builders.generate.contract import Generator
from builders.release import images
from builders.release.schema import Column
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.parquet import read_parquet

SEALED_SUFFIX = ".sealed.parquet"

RECORD_SCHEMA = pa.schema(
    [("size", pa.int64()), ("content_sha256", pa.string()), ("unreadable", pa.string()), ("input_sha256", pa.string())]
)
"""Columns of a record, to which the generator's are added: bytes in the pack, digest over the pixels, the reason if
there is no image, and the digest of the input (`builders.generate.inputs`)."""

_BATCH_BYTES = 64 * 1024 * 1024
"""Greatest cost of a batch, in bytes read and bytes of pixels generated: about two seconds of decoding JPEGs."""

_IMAGE_COST = 32 * 1024
"""Cost added for each image, so that a batch of tiny images has fewer than 2,048 of them."""


@dataclass(frozen=True)
class Batch:
    """The rows `start:stop` of a split's plan, and the pack for their images."""

    start: int
    stop: int
    pack: Path

    @property
    def record(self) -> Path:
        """The record: a Parquet file with one row per image, which exists once the batch is done."""
        return self.pack.with_suffix(".made.parquet")

    @property
    def sealed(self) -> Path:
        """The sealed residuals of its images, where the generator's are sealed; removed with the pack."""
        return self.pack.with_suffix(SEALED_SUFFIX)


def cut_batches(table: pa.Table, generator: Generator, name: str, staging: Path) -> list[Batch]:
    """Cut a split's plan into batches of equal cost.

    Args:
        table: the plan's columns and `size`, one row per image.
        generator: the split's generator.
        name: prefix of the packs' names, from the name of the split.
        staging: folder of the packs.

    Returns:
        Batches in the order of the rows. The name of a pack depends on its images and the generator's identity, so
        that a rerun finds it, and other images get another pack.
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
    """Return the schema of the records of a generator with these columns."""
    schema = RECORD_SCHEMA
    for column in columns:
        schema = schema.append(pa.field(column.name, column.arrow))
    return schema


def read_records(batches: Sequence[Batch], columns: Iterable[Column] = ()) -> pa.Table:
    """Read the records of a split's batches, and add `file` and `offset` of each image in the packs."""
    schema = record_schema(columns).append(pa.field("file", pa.string())).append(pa.field("offset", pa.int64()))
    records = []
    for batch in batches:
        record = read_parquet(batch.record)
        sizes = record["size"].to_numpy()
        record = record.append_column("file", pa.repeat(batch.pack.name, record.num_rows))
        records.append(record.append_column("offset", pa.array(np.cumsum(sizes) - sizes)))
    return pa.concat_tables(records) if records else schema.empty_table()


def generated_table(plan: pa.Table, batches: Sequence[Batch], root: str, columns: Iterable[Column] = ()) -> pa.Table:
    """Join a plan with the records of its batches: where each PNG is, its digest, and the generator's columns."""
    records = read_records(batches, columns).drop_columns("input_sha256")
    table = plan.append_column("root", pa.repeat(root, plan.num_rows))
    for name in records.column_names:
        table = table.append_column(name, records[name])
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
    pack_name, pack = "", b""
    places = zip(*(table[name].to_pylist() for name in ("file", "offset", "size")), strict=True)
    for number, (file, offset, size) in enumerate(places):
        if file != pack_name:
            pack_name, pack = file, (staging / file).read_bytes()
        image = np.asarray(images.decode(pack[offset : offset + size]))
        if number == 0:
            pixels = np.zeros((table.num_rows, *image.shape), dtype=np.uint8)
        pixels[number] = image
    return pixels
