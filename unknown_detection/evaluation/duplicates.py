"""The table of duplicate pairs of a release.

Tested by `tests/evaluation/test_duplicate_pairs.py`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

PAIRS = "duplicates/pairs.parquet"
"""Path of a release's table of duplicate pairs. Each line is a pair of rows whose images are identical (distance 0) or
nearly so. A row may appear in several pairs."""


def paired_ids(pairs: pa.Table) -> dict[str, pa.Array]:
    """Return the distinct ids of rows on either side of a pair, by `config/split`, sorted by split."""
    splits, ids = (
        pa.chunked_array([*pairs[name].chunks, *pairs[f"other_{name}"].chunks], pa.string())
        for name in ("split", "id")
    )
    return {
        split: pc.unique(ids.filter(pc.equal(splits, split)))
        for split in sorted(pc.unique(splits).drop_null().to_pylist())
    }
