"""Finds a repeated text in the columns of a source's index, without a table of all texts.

Tested by `tests/builders/sources/test_repeated.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BLOCK = 1 << 16
"""Texts that are Python's at a time (ours): of ten million at once, 900 MB would be."""


def repeated_text(columns: Sequence[pa.ChunkedArray]) -> str | None:
    """Return the least text that occurs twice in some columns together, None if none does.

    Columns whose texts ascend from chunk to chunk have none twice, which is so for most sources. Others are compared
    by 64-bit hashes, 8 bytes a row, where Arrow's distinct count would take 500.
    """
    chunks = sorted((chunk for column in columns for chunk in column.chunks if len(chunk)), key=lambda c: c[0].as_py())
    if all(a[-1].as_py() < b[0].as_py() for a, b in itertools.pairwise(chunks)) and all(
        pc.all(pc.less(chunk[:-1], chunk[1:]), min_count=0).as_py() for chunk in chunks
    ):
        return None
    texts = pa.chunked_array(chunks, pa.string())
    blocks = (texts.slice(start, _BLOCK).to_pylist() for start in range(0, len(texts), _BLOCK))
    hashes = np.sort(np.concatenate([np.array(list(map(hash, block)), np.int64) for block in blocks]))
    if not (hashes[1:] == hashes[:-1]).any():
        return None
    counts = pc.value_counts(texts)
    repeated: str | None = pc.min(counts.field("values").filter(pc.greater(counts.field("counts"), 1))).as_py()
    return repeated  # None where two texts share a hash
