"""Batches of generated images: slices of equal cost of a split's plan, each written to a pack of PNGs.

Generating images takes most of the time of such a split. Batches are smaller than shards, so that workers share the
work of a single shard evenly and a killed run loses little. A pack is removed when the release is done; its record
stays, because a later run needs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from builders.generate import png
from builders.generate.contract import Generated, Generator
from builders.release import images
from builders.release.schema import INPUT_DIGEST, MADE, PLACES, Column, plain_schema
from builders.storage.byte_ranges import PACK_SUFFIX
from builders.storage.kept_tables import read_kept

Pixels = npt.NDArray[np.uint8]

SEALED_SUFFIX = ".sealed.parquet"

_BATCH_BYTES = 64 * 1024 * 1024
"""Greatest cost of a batch, in bytes read and bytes of pixels generated: about two seconds of decoding JPEGs."""

_IMAGE_COST = 32 * 1024
"""Cost added for each image, so that a batch of tiny images has fewer than 2,048 of them."""


@dataclass(frozen=True)
class Batch:
    """A batch: the rows `start:stop` of a split's plan, and the pack that their images are written to."""

    start: int
    stop: int
    pack: Path

    @property
    def record(self) -> Path:
        """The batch's record, a Parquet file with one row per image; it exists once the batch is done."""
        return self.pack.with_suffix(".made.parquet")

    @property
    def sealed(self) -> Path:
        """The file of the batch's sealed residuals, if the generator seals its images; removed with the pack."""
        return self.pack.with_suffix(SEALED_SUFFIX)


def cut_batches(table: pa.Table, generator: Generator, name: str, staging: Path) -> list[Batch]:
    """Cut a split's plan, with the images' `size`, into batches of equal cost.

    The name of a pack begins with `name` and depends on its images and the generator's identity, so that a rerun
    finds it, and other images get another pack.
    """
    ids = table["id"].to_pylist()
    if not ids:
        return []
    sizes = table["size"].to_numpy()
    costs = np.cumsum(sizes + generator.nominal_bytes + _IMAGE_COST)
    count = -(-int(costs[-1]) // _BATCH_BYTES)
    starts = sorted({0, *(int(np.searchsorted(costs, int(costs[-1]) * i // count)) for i in range(1, count))})
    identity = json.dumps(generator.identity(), sort_keys=True)
    batches = []
    for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True):
        lines = "\n".join([identity, *ids[start:stop], ""])
        key = hashlib.sha256(lines.encode() + sizes[start:stop].tobytes()).hexdigest()[:16]
        batches.append(Batch(start, stop, staging / f"{name}-{key}{PACK_SUFFIX}"))
    return batches


def record_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema of batch records for a generator with these columns.

    Before them stand the bytes in the pack, the digest over the pixels, the reason if there is no image, and the
    digest of the input (`builders.generate.task`).
    """
    own = {column.name: column.type for column in columns}
    return plain_schema({"size": PLACES["size"], **MADE, INPUT_DIGEST: "string", **own})


class PackWriter:
    """Writes the images of a batch in order, and builds their record."""

    def __init__(self, sink: RawIOBase, columns: Sequence[Column]) -> None:
        self._sink, self._schema = sink, record_schema(columns)
        self._names = {column.name for column in columns}
        self._rows: list[dict[str, object]] = []

    def add(self, generated: Generated, input_sha256: str) -> None:
        """Add the next image, or the reason why there is none."""
        row = {"size": 0, "content_sha256": "", "unreadable": generated.reason, "input_sha256": input_sha256}
        if generated.pixels is not None:
            if set(generated.values) != self._names:
                raise ValueError(f"the values {list(generated.values)} are not those of the columns {self._names}")
            (digest,) = images.array_sha256(generated.pixels[np.newaxis])
            size = self._write(generated.pixels[np.newaxis])
            row |= {**generated.values, "size": size, "content_sha256": digest}
        self._rows.append(row)

    def add_arrays(self, pixels: Pixels) -> None:
        """Add the pixels of arrays, all of one size and without values; shape (n, height, width, 3)."""
        size = self._write(pixels)
        self._rows += [
            {"size": size, "content_sha256": digest, "unreadable": "", "input_sha256": digest}
            for digest in images.array_sha256(pixels)
        ]

    def record(self) -> pa.Table:
        """Return the record of all images."""
        return pa.Table.from_pylist(self._rows, self._schema)

    def _write(self, pixels: Pixels) -> int:
        """Write images of one size; returns the bytes of each."""
        encoded = png.encode(pixels)
        data = encoded.reshape(-1).data
        # One call on an unbuffered file may write a part only: on Linux at most 2 GB, or as much as fits on the disk.
        while len(data):
            data = data[self._sink.write(data) or 0 :]
        return int(encoded.shape[1])


def generated_table(plan: pa.Table, batches: Sequence[Batch], root: str, columns: Iterable[Column] = ()) -> pa.Table:
    """Add to a plan what its batches recorded: where each PNG is, its digest, and the generator's columns."""
    schema = record_schema(columns).append(pa.field("file", pa.string())).append(pa.field("offset", pa.int64()))
    records = [schema.empty_table()]
    for batch in batches:
        record = read_kept(batch.record).replace_schema_metadata(None)
        sizes = record["size"].to_numpy()
        record = record.append_column("file", pa.repeat(batch.pack.name, record.num_rows))
        records.append(record.append_column("offset", pa.array(np.cumsum(sizes) - sizes)))
    table = plan.append_column("root", pa.repeat(root, plan.num_rows))
    joined = pa.concat_tables(records).drop_columns(INPUT_DIGEST)
    for name in joined.column_names:
        table = table.append_column(name, joined[name])
    return table
