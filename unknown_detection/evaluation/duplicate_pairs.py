"""Reads and checks the table of a release's duplicate pairs.

Each line is a pair of rows whose images are identical (distance 0) or nearly so. A row may appear in several pairs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.files import read_untrusted, require_regular

PATH = "duplicates/pairs.parquet"
"""Path of the table in a release."""

_TEXTS = ("id", "other_id", "split", "other_split", "role", "other_role", "class_id", "other_class_id")
COLUMNS = pa.schema([*((name, pa.string()) for name in _TEXTS), ("distance", pa.float64())])
"""The table's columns, in order; splits are written `config/split`."""

Ids = Callable[[str, str], pa.ChunkedArray]
"""Returns the ids of a split, given its config and name."""

_VERIFY = "run `python -m hf_scripts.verify` to find out what is wrong."
_REBUILD = "Take the table from the same build as the rows, or build the release again."


def read_pairs(path: Path, sha256: str, rows: int, name: str) -> pa.Table:
    """Read the table from its file, which must have the digest and number of rows of the manifest.

    Raises:
        EvaluationError: the file does not exist, or its digest or number of rows differs.
    """
    require_regular(path)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise EvaluationError(
            f"{PATH} of {name} has the sha256 {digest[:12]}, but the manifest names {sha256[:12]}; {_VERIFY}"
        )
    pairs = read_untrusted(content, f"{PATH} of {name}")
    if len(pairs) != rows:
        raise EvaluationError(f"{PATH} of {name} has {len(pairs):,} pairs, but the manifest says {rows:,}; {_VERIFY}")
    return pairs


def check_pairs(pairs: pa.Table, splits: frozenset[str], ids: Ids, where: str) -> None:
    """Check a table against the rows of its release: its `config/split`s, and the ids of those that the table names.

    Raises:
        EvaluationError: columns differ from `COLUMNS`, cells are empty, an id is paired with itself, or a split or id
            is not in the release.
    """
    if pairs.schema.remove_metadata() != COLUMNS:
        columns, expected = (", ".join(f"{of.name} {of.type}" for of in schema) for schema in (pairs.schema, COLUMNS))
        raise EvaluationError(f"{PATH} of {where} has the columns {columns}, instead of {expected}. {_REBUILD}")
    empty = [name for name in COLUMNS.names if pairs[name].null_count]
    if empty:
        raise EvaluationError(f"{PATH} of {where} has empty cells in {', '.join(empty)}. {_REBUILD}")
    self_paired = pairs["id"].filter(pc.equal(pairs["id"], pairs["other_id"]))
    if len(self_paired):
        raise EvaluationError(f"{PATH} of {where} pairs {self_paired[0]} with itself. {_REBUILD}")
    for split, row_ids in paired_ids(pairs).items():
        if split not in splits:
            raise EvaluationError(f"{PATH} names rows of {split}, a split that {where} does not have. {_REBUILD}")
        missing = row_ids.filter(pc.invert(pc.is_in(row_ids, value_set=ids(*split.split("/", 1)).combine_chunks())))
        if len(missing):
            raise EvaluationError(
                f"{PATH} names {len(missing):,} ids that {split} of {where} does not have, such as {missing[0]}. "
                f"{_REBUILD}"
            )


def paired_ids(pairs: pa.Table) -> dict[str, pa.Array]:
    """Return the distinct ids of rows on either side of a pair, by `config/split`, sorted by split."""
    splits, ids = (
        pa.chunked_array([*pairs[name].chunks, *pairs[f"other_{name}"].chunks], pa.string())
        for name in ("split", "id")
    )
    return {split: pc.unique(ids.filter(pc.equal(splits, split))) for split in sorted(pc.unique(splits).to_pylist())}
