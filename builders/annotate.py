"""The column `near_duplicate_of`: which rows' images nearly repeat an in-distribution training image."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.near_duplicates import THRESHOLD, find
from builders.shards import replacing

PAIRS_SCHEMA = pa.schema([("id", pa.string()), ("near_duplicate_of", pa.string()), ("distance", pa.float32())])
"""One row a pair, the pairs of an image together and its nearest first."""

Pixels = Callable[[pa.Table], "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"]
"""Reads the images of some rows: shape (n, 32, 32, 3)."""


def near_duplicate_pairs(
    queries: pa.Table, references: pa.Table, cache: Path, pixels: Pixels, advance: Callable[[int], object]
) -> pa.Table:
    """Find the near-duplicates of some images among others, or recall them.

    Args:
        queries: columns `id`, `content_sha256`, `unreadable` and what `pixels` needs.
        references: the same.
        cache: folder in which the result is kept, so that a rerun needs no pixels.
        pixels: reads images.
        advance: called with the number of queries done since the last call.

    Returns:
        Columns of `PAIRS_SCHEMA`.
    """
    path = cache / f"{_key(queries, references)}.parquet"
    if path.exists():
        advance(queries.num_rows)
        return pq.read_table(path)
    some, others = _readable(queries), _readable(references)
    found = find(pixels(some), pixels(others), advance=advance)
    pairs = pa.Table.from_arrays(
        [
            some["id"].combine_chunks().take(pa.array(found.queries)),
            others["id"].combine_chunks().take(pa.array(found.references)),
            pa.array(found.distances, pa.float32()),
        ],
        schema=PAIRS_SCHEMA,
    )
    with replacing(path) as temporary:
        pq.write_table(pairs, temporary, compression="zstd")
    return pairs


def near_duplicate_column(ids: pa.ChunkedArray, pairs: pa.Table) -> pa.Array:
    """The column for rows with these ids: the id of the nearest training image, or an empty text."""
    first = np.unique(pairs["id"].to_numpy(zero_copy_only=False).astype(str), return_index=True)[1]
    nearest = pairs.take(pa.array(first))
    place = pc.index_in(ids, value_set=nearest["id"].combine_chunks())
    return pc.fill_null(nearest["near_duplicate_of"].combine_chunks().take(place.combine_chunks()), "")


def _readable(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.equal(rows["unreadable"], ""))


def _key(queries: pa.Table, references: pa.Table) -> str:
    """A name for the result, which depends on both sides' images and ids and on the threshold, and on nothing else."""
    digest = hashlib.sha256(f"{THRESHOLD}\n".encode())
    for rows in (queries, references):
        for name in ("id", "content_sha256"):
            digest.update("\n".join(rows[name].to_pylist()).encode() + b"\n\n")
    return digest.hexdigest()[:32]
