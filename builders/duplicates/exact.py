"""Finds rows with equal digests in a release's index files, and reads the rows that pairs name."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.duplicates.search import Pairs
from builders.release.duplicates import Pair, PairedRow, pair_of
from builders.release.schema import ROLES
from builders.storage.parquet import open_streamed, read_parquet, row_batches

ALL_PAIRS = 100
"""In a larger group of equal images, each image is paired only with the group's first one (ours: n - 1 pairs identify
the group, and all n(n-1)/2 pairs of a placeholder image that occurs a thousand times would be half a million)."""

DIGEST = "content_sha256"

_BATCH_ROWS = 65536
_DIGITS = 16


class IndexRow(NamedTuple):
    """A row of an index as pairs need it: what a pair says of it, its content digest, and its number in the index."""

    side: PairedRow
    digest: str
    number: int


def exact_pairs(indexes: Mapping[str, Path], digests: Mapping[str, pa.ChunkedArray] | None = None) -> list[Pair]:
    """Find all pairs of rows with equal digests, in one split or in two, in no particular order.

    Their distance is 0. Rows with the same id are not a pair; for large groups see `ALL_PAIRS`. `indexes` are index
    files by `config/split`, and `digests` those to compare instead of the column `content_sha256`.
    """
    # The first digits tell the few rows that may have equals, and take a quarter of the memory.
    starts = {
        key: pc.binary_slice((digests[key] if digests else index_digests(path)).cast(pa.binary()), 0, _DIGITS)
        for key, path in indexes.items()
    }
    counted = pc.value_counts(
        pa.chunked_array([chunk for start in starts.values() for chunk in start.chunks], pa.binary())
    )
    repeated = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    groups: dict[str, list[PairedRow]] = defaultdict(list)
    for key, path in indexes.items():
        numbers = np.flatnonzero(pc.is_in(starts[key], value_set=repeated).to_numpy())
        rows = _rows_at(path, key, numbers)
        texts = digests[key].take(pa.array(numbers)).to_pylist() if digests else [row.digest for row in rows]
        for text, row in zip(texts, rows, strict=True):
            if text:  # empty only in a damaged index
                groups[text].append(row.side)
    return [pair for members in groups.values() for pair in _pairs(sorted(members))]


def index_digests(path: Path) -> pa.ChunkedArray:
    """Read the column `content_sha256` of an index file."""
    return read_parquet(path, [DIGEST])[DIGEST]


def searched_pairs(pairs: Pairs, query: tuple[str, Path], reference: tuple[str, Path]) -> Iterator[Pair]:
    """Yield the near pairs that a search found, without pairs of equal ids or of equal content.

    `query` and `reference` are key and index file of the splits whose row numbers the search has.
    """
    sides = []
    for numbers, (key, path) in ((pairs.queries, query), (pairs.references, reference)):
        distinct, positions = np.unique(numbers, return_inverse=True)
        rows = _rows_at(path, key, distinct)
        sides.append([rows[position] for position in positions.tolist()])
    for row, other_row, distance in zip(*sides, pairs.distances.tolist(), strict=True):
        if row.digest != other_row.digest and row.side.id != other_row.side.id:
            yield pair_of(row.side, other_row.side, distance)


def rows_of_pairs(pairs: Iterable[Pair], indexes: Callable[[str], Path | None]) -> dict[tuple[str, str], IndexRow]:
    """Read from the indexes the rows on both sides of pairs, by split and id; rows that no index has are left out.

    `indexes` gives the index file of a split (`config/split`), or None if there is none.
    """
    ids_by_key: dict[str, set[str]] = defaultdict(set)
    for side in itertools.chain.from_iterable(pair.sides for pair in pairs):
        ids_by_key[side.split].add(side.id)
    rows: dict[tuple[str, str], IndexRow] = {}
    for key, ids in sorted(ids_by_key.items()):
        if (path := indexes(key)) is not None:
            is_named = pc.is_in(read_parquet(path, ["id"])["id"], value_set=pa.array(sorted(ids), pa.string()))
            rows |= {(key, row.side.id): row for row in _rows_at(path, key, np.flatnonzero(is_named))}
    return rows


def _rows_at(path: Path, key: str, numbers: npt.NDArray[np.int64]) -> list[IndexRow]:
    """Read rows of an index file, by ascending row numbers."""
    rows, first = list[IndexRow](), 0
    with open_streamed(path) as opened:
        for batch in row_batches(opened, _BATCH_ROWS, ["id", "role", "class_id", DIGEST]) if len(numbers) else ():
            inside = numbers[(numbers >= first) & (numbers < first + batch.num_rows)] - first
            for number, row in zip(inside.tolist(), batch.take(pa.array(inside)).to_pylist(), strict=True):
                role = row["role"]  # a damaged index may have any number, or nothing
                role = ROLES[role] if role in range(len(ROLES)) else str(role)
                side = PairedRow(key, row["id"] or "", role, row["class_id"] or "")
                rows.append(IndexRow(side, row[DIGEST] or "", first + number))
            first += batch.num_rows
    return rows


def _pairs(members: list[PairedRow]) -> Iterator[Pair]:
    with_first = itertools.product(members[:1], members[1:])
    for row, other_row in with_first if len(members) > ALL_PAIRS else itertools.combinations(members, 2):
        if row.id != other_row.id:
            yield pair_of(row, other_row, 0.0)
