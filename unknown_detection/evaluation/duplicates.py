"""The table of duplicate pairs of a release.

Tested by `tests/evaluation/test_duplicate_pairs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

_REBUILD = "Take the table from the same build as the rows, or build the release again."


def read_pairs(path: Path, sha256: str, rows: int, name: str) -> pa.Table:
    """Read the table of duplicate pairs of a release, of the digest and number of rows that its manifest names."""
    pairs = read_listed(path, sha256, f"{PAIRS} of {name}")
    if len(pairs) != rows:
        raise EvaluationError(f"{PAIRS} of {name} has {len(pairs):,} pairs, but the manifest says {rows:,}. {VERIFY}")
    problem = ""
    if pairs.schema.remove_metadata() != PAIR_COLUMNS:
        columns, expected = (", ".join(f"{of.name} {of.type}" for of in key) for key in (pairs.schema, PAIR_COLUMNS))
        problem = f"has the columns {columns}, instead of {expected}"
    elif empty := [column for column in PAIR_COLUMNS.names if pairs[column].null_count]:
        problem = f"has empty cells in {', '.join(empty)}"
    elif len(self_paired := pairs["id"].filter(pc.equal(pairs["id"], pairs["other_id"]))):
        problem = f"pairs {self_paired[0]} with itself"
    if problem:
        raise EvaluationError(f"{PAIRS} of {name} {problem}. {_REBUILD}")
    return pairs


def paired_ids(pairs: pa.Table) -> dict[str, pa.Array]:
    """Return the distinct ids of rows on either side of a pair, by `config/split`, sorted by split."""
    splits, ids = (
        pa.chunked_array([*pairs[name].chunks, *pairs[f"other_{name}"].chunks], pa.string())
        for name in ("split", "id")
    )
    return {split: pc.unique(ids.filter(pc.equal(splits, split))) for split in sorted(pc.unique(splits).to_pylist())}


def require_paired_rows(pairs: pa.Table, name: str, rows: Mapping[str, Callable[[], pa.Table]]) -> None:
    """Check that pairs are of rows of a release, which are read by `config/split`."""
    for split, ids in paired_ids(pairs).items():
        if split not in rows:
            raise EvaluationError(f"{PAIRS} names rows of {split}, a split that {name} does not have. {_REBUILD}")
        missing = ids.filter(pc.invert(pc.is_in(ids, value_set=rows[split]()["id"].combine_chunks())))
        if len(missing):
            raise EvaluationError(
                f"{PAIRS} names {len(missing):,} ids that {split} of {name} does not have, such as {missing[0]}. "
                f"{_REBUILD}"
            )
