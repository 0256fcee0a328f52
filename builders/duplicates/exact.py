"""Finds rows with equal digests in the index files of a release.

Digests are 64 hexadecimal digits. The first 16 of each become one 64-bit number, and sorting these finds the few rows
that may have equals. Whole digests, ids, roles and classes are read only for those, so a million rows take 8 MB.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from builders.release.duplicates import Pair, PairedRow, pair_of
from builders.release.schema import ROLES
from builders.storage.parquet import open_streamed, row_batches

if TYPE_CHECKING:  # the search imports SciPy
    from builders.duplicates.search import Pairs

ALL_PAIRS = 100
"""In a larger group of equal images, each image is paired only with the group's first one (ours: n - 1 pairs identify
the group, and all n(n-1)/2 pairs of a placeholder image that occurs a thousand times would be half a million)."""

DIGEST = "content_sha256"

_BATCH_ROWS = 65536
_PREFIX = 16

# The value of a hexadecimal digit by character code. Other characters count as 0, since whole digests decide.
_NIBBLES = np.zeros(256, np.uint64)
for _value, _digit in enumerate(b"0123456789abcdef"):
    _NIBBLES[_digit] = _value

Digests = Callable[[], Iterable[pa.Array]]
"""Returns a split's digests in the order of its rows, in batches; it can be called repeatedly."""


def exact_pairs(indexes: Mapping[str, Path], digests: Mapping[str, Digests] | None = None) -> list[Pair]:
    """Find the pairs of rows with equal digests, within a split or between two; their distance is 0.

    Args:
        indexes: index files by `config/split`.
        digests: the digests to compare instead of the column `content_sha256`, by the same keys.

    Returns:
        Pairs in no particular order. Rows with the same id are not a pair; for large groups see `ALL_PAIRS`.
    """
    read = digests or {key: index_digests(path) for key, path in indexes.items()}
    groups: dict[str, list[PairedRow]] = {}
    for key, numbers in _candidates({key: read[key] for key in indexes}).items():
        texts = _taken(read[key](), numbers)
        for text, row in zip(texts, rows_at(indexes[key], key, numbers), strict=True):
            if text:  # empty only in a damaged index
                groups.setdefault(text, []).append(row)
    return [pair for members in groups.values() for pair in _pairs(sorted(members))]


def index_digests(path: Path) -> Digests:
    """Return a function that reads the column `content_sha256` of an index file."""

    def read() -> Iterator[pa.Array]:
        with open_streamed(path) as opened:
            for batch in row_batches(opened, _BATCH_ROWS, [DIGEST]):
                yield batch.column(0)

    return read


def rows_at(path: Path, key: str, numbers: npt.NDArray[np.int64]) -> list[PairedRow]:
    """Read rows of an index file by ascending row numbers."""
    rows: list[PairedRow] = []
    if not len(numbers):
        return rows
    first = 0
    with open_streamed(path) as opened:
        for batch in row_batches(opened, _BATCH_ROWS, ["id", "role", "class_id"]):
            inside = numbers[(numbers >= first) & (numbers < first + batch.num_rows)] - first
            if len(inside):
                rows += [_row(key, row) for row in batch.take(pa.array(inside)).to_pylist()]
            first += batch.num_rows
    return rows


def rows_with_digests(path: Path, key: str, numbers: npt.NDArray[np.int64]) -> list[tuple[PairedRow, str]]:
    """Read rows of an index file by number, in the order of the numbers, each with its content digest."""
    distinct, positions = np.unique(numbers, return_inverse=True)
    rows = list(zip(rows_at(path, key, distinct), _taken(index_digests(path)(), distinct), strict=True))
    return [rows[position] for position in positions.tolist()]


def searched_pairs(pairs: Pairs, query: tuple[str, Path], reference: tuple[str, Path]) -> Iterator[Pair]:
    """Yield the pairs of a search in which ids and content differ; equal content is found by digests.

    Args:
        pairs: row numbers of queries and references, and their distances.
        query: key and index file of the queries' split.
        reference: those of the references' split.
    """
    rows = rows_with_digests(query[1], query[0], pairs.queries)
    other_rows = rows_with_digests(reference[1], reference[0], pairs.references)
    for (row, digest), (other_row, other_digest), distance in zip(
        rows, other_rows, pairs.distances.tolist(), strict=True
    ):
        if digest != other_digest and row.id != other_row.id:
            yield pair_of(row, other_row, distance)


def ids_by_key(pairs: Iterable[Pair]) -> dict[str, set[str]]:
    """Collect the ids of both sides of pairs by their split (`config/split`)."""
    ids: dict[str, set[str]] = {}
    for pair in pairs:
        ids.setdefault(pair.split, set()).add(pair.id)
        ids.setdefault(pair.other_split, set()).add(pair.other_id)
    return ids


def rows_of_pairs(
    pairs: Iterable[Pair], indexes: Callable[[str], Path | None]
) -> dict[tuple[str, str], tuple[PairedRow, str]]:
    """Read the rows of both sides of pairs, each with its content digest, by split and id; missing ones are left out.

    Args:
        pairs: the pairs.
        indexes: gives the index file of a split (`config/split`), or None if there is none.
    """
    return {
        (key, name): row
        for key, ids in sorted(ids_by_key(pairs).items())
        if (path := indexes(key)) is not None
        for name, row in rows_named(path, key, ids).items()
    }


def rows_named(path: Path, key: str, ids: Iterable[str]) -> dict[str, tuple[PairedRow, str]]:
    """Read rows of an index file by id, each with its content digest; missing ids are left out."""
    names, rows = pa.array(sorted(set(ids)), pa.string()), {}
    with open_streamed(path) as opened:
        for batch in row_batches(opened, _BATCH_ROWS, ["id", "role", "class_id", DIGEST]):
            for row in batch.filter(pc.is_in(batch.column("id"), value_set=names)).to_pylist():
                rows[row["id"]] = (_row(key, row), row[DIGEST] or "")
    return rows


def _row(key: str, row: Mapping[str, Any]) -> PairedRow:
    role = row["role"]  # a damaged index may have any number, or nothing
    return PairedRow(
        key, row["id"] or "", ROLES[role] if role in range(len(ROLES)) else str(role), row["class_id"] or ""
    )


def _candidates(digests: Mapping[str, Digests]) -> dict[str, npt.NDArray[np.int64]]:
    """Return by split the row numbers of digests that share their prefix with another row's."""
    nothing = np.zeros(0, np.uint64)
    prefixes = {key: np.concatenate([nothing, *map(_prefixes, read())]) for key, read in digests.items()}
    sorted_prefixes = np.sort(np.concatenate([nothing, *prefixes.values()]))
    repeated = np.unique(sorted_prefixes[1:][sorted_prefixes[1:] == sorted_prefixes[:-1]])
    if not len(repeated):
        return {}
    candidates = {}
    for key, split_prefixes in prefixes.items():
        positions = np.minimum(np.searchsorted(repeated, split_prefixes), len(repeated) - 1)
        candidates[key] = np.flatnonzero(repeated[positions] == split_prefixes)
    return candidates


def _prefixes(digests: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the first 16 hexadecimal digits of each digest as a number; shape (n,)."""
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.fill_null(digests, ""), _PREFIX, "0"), 0, _PREFIX)
    # Only a damaged index has other text, in which sixteen characters may take more bytes.
    if not pc.all(pc.equal(pc.binary_length(padded), _PREFIX)).as_py():
        padded = pa.array([text.encode("ascii", "replace").decode() for text in padded.to_pylist()], pa.string())
    _, offsets, values = padded.buffers()
    first = np.frombuffer(offsets, np.int32)[padded.offset]
    letters = np.frombuffer(values, np.uint8, len(padded) * _PREFIX, first) if len(padded) else np.zeros(0, np.uint8)
    prefixes = np.zeros(len(padded), np.uint64)
    for column in letters.reshape(-1, _PREFIX).T:
        prefixes = (prefixes << np.uint64(4)) | _NIBBLES[column]
    return prefixes


def _taken(batches: Iterable[pa.Array], numbers: npt.NDArray[np.int64]) -> list[str]:
    """Read values of a batched column by ascending row numbers."""
    values: list[str] = []
    first = 0
    for batch in batches:
        inside = numbers[(numbers >= first) & (numbers < first + len(batch))] - first
        values += batch.take(pa.array(inside)).to_pylist()
        first += len(batch)
    return values


def _pairs(members: list[PairedRow]) -> Iterator[Pair]:
    with_first = itertools.product(members[:1], members[1:])
    for row, other_row in with_first if len(members) > ALL_PAIRS else itertools.combinations(members, 2):
        if row.id != other_row.id:
            yield pair_of(row, other_row, 0.0)
