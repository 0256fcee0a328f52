"""Finds a repeated text in the columns of a source's index, without a table of all texts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def repeated_text(columns: Sequence[pa.ChunkedArray]) -> str | None:
    """Return the least text that occurs twice in some columns together, None if none does.

    A column whose texts ascend, and lie apart from those of the other columns, cannot have one twice. The others are
    compared by 64-bit hashes, 8 bytes a row, where Arrow's distinct count would take 500.
    """
    ranges = sorted((*_range(column), position) for position, column in enumerate(columns) if len(column))
    disjoint = {position for _, _, ascends, position in ranges if ascends}
    highest = ranges[:1]
    for first, last, ascends, position in ranges[1:]:
        if first <= highest[0][1]:
            disjoint -= {position, highest[0][3]}
        if last > highest[0][1]:
            highest = [(first, last, ascends, position)]
    compared = [column for position, column in enumerate(columns) if position not in disjoint]
    hashes = np.sort(np.concatenate([np.empty(0, np.int64), *map(_hashes, compared)]))
    if not (hashes[1:] == hashes[:-1]).any():
        return None
    counts = pc.value_counts(pa.chunked_array([chunk for column in compared for chunk in column.chunks], pa.string()))
    repeated: str | None = pc.min(counts.field("values").filter(pc.greater(counts.field("counts"), 1))).as_py()
    return repeated  # None where two texts share a hash


def _range(column: pa.ChunkedArray) -> tuple[str, str, bool]:
    """Return the least and the greatest text of a column, and whether its texts ascend strictly."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    inside = all(pc.all(pc.less(chunk[:-1], chunk[1:]), min_count=0).as_py() for chunk in chunks)
    ascends = inside and all(a[-1].as_py() < b[0].as_py() for a, b in itertools.pairwise(chunks))
    bounds = pc.min_max(column)
    return bounds["min"].as_py(), bounds["max"].as_py(), ascends


_BLOCK = 1 << 16
"""Texts that are Python's at a time (ours): of ten million at once, 900 MB would be."""


def _hashes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    blocks = (column.slice(start, _BLOCK).to_pylist() for start in range(0, len(column), _BLOCK))
    return np.concatenate([np.empty(0, np.int64), *(np.array(list(map(hash, block)), np.int64) for block in blocks)])
