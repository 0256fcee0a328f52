"""The table of duplicate pairs of a release.

Tested by `tests/evaluation/test_duplicate_pairs.py`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.release.duplicates import schema as pairs_schema
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.files import VERIFY, read_listed

PAIRS = "duplicates/pairs.parquet"
"""Path of a release's table of duplicate pairs. Each line is a pair of rows whose images are identical (distance 0) or
nearly so. A row may appear in several pairs."""

PAIR_COLUMNS = pairs_schema().remove_metadata()
"""The table's columns, in order; splits are written `config/split`."""


def read_pairs(path: Path, sha256: str, name: str) -> pa.Table:
    """Read the table of duplicate pairs of a release, of the digest that its manifest names.

    `verify` compares the pairs with the rows.
    """
    pairs = read_listed(path, sha256, f"{PAIRS} of {name}")
    if pairs.schema.remove_metadata() != PAIR_COLUMNS:
        columns, expected = (", ".join(f"{of.name} {of.type}" for of in key) for key in (pairs.schema, PAIR_COLUMNS))
        raise EvaluationError(f"{PAIRS} of {name} has the columns {columns}, instead of {expected}. {VERIFY}")
    return pairs


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
