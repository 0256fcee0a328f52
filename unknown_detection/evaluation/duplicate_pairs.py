"""The table of a release's duplicate pairs: reading and checking it.

Each line is a pair of rows whose images are identical (distance 0) or nearly so. A row may appear in several pairs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unknown_detection.evaluation.errors import EvaluationError, first_line
from unknown_detection.evaluation.files import read_parquet, require_regular

CONFIG = "duplicates"
"""The table's config in the card, and its key in the manifest."""

SPLIT = "pairs"
PATH = f"{CONFIG}/{SPLIT}.parquet"
"""Path of the table in a release."""

COLUMNS: Mapping[str, pa.DataType] = {
    "id": pa.string(),
    "other_id": pa.string(),
    "split": pa.string(),
    "other_split": pa.string(),
    "role": pa.string(),
    "other_role": pa.string(),
    "class_id": pa.string(),
    "other_class_id": pa.string(),
    "distance": pa.float64(),
}
"""The table's columns, in order; splits are written `config/split`."""

Ids = Callable[[str, str], pa.ChunkedArray]
"""Returns the ids of a split, given its config and name."""

_VERIFY = "run `python -m hf_scripts.verify` to find out what is wrong."
_REBUILD = "Take the table from the same build as the rows, or build the release again."


def check_entry(manifest: Mapping[str, Any], where: str) -> None:
    """Check the manifest's entry for the table, if it has one.

    Raises:
        EvaluationError: the entry lacks the file's path, digest or number of rows.
    """
    if CONFIG not in manifest:
        return
    entry = manifest[CONFIG]
    named = isinstance(entry, dict) and (entry.get("path"), type(entry.get("sha256")), type(entry.get("rows")))
    if named != (PATH, str, int):
        raise EvaluationError(
            f"The manifest.json of {where} does not name {PATH} with its sha256 and rows under the key {CONFIG}; "
            f"{_VERIFY}"
        )


def read(source: str, revision: str | None, manifest: Mapping[str, Any], name: str) -> pa.Table:
    """Read the table's file.

    Args:
        source: the release's folder, or ORG/NAME.
        revision: the commit on the Hub; None for a folder.
        manifest: the release's manifest, checked by `check_entry`.
        name: the release's name, for messages.

    Raises:
        EvaluationError: the file does not exist, or its digest or number of rows differs from the manifest's.
    """
    path = Path(source) / PATH if revision is None else _download(source, revision, name)
    try:
        if path.exists():
            require_regular(path)
        content = path.read_bytes()
    except OSError as error:
        raise EvaluationError(
            f"Cannot read {PATH} of {name}: {error.strerror}. The manifest names this file; restore it."
        ) from error
    entry = manifest[CONFIG]
    found = hashlib.sha256(content).hexdigest()
    if found != entry["sha256"]:
        raise EvaluationError(
            f"{PATH} of {name} has the sha256 {found[:12]}, but the manifest names {entry['sha256'][:12]}; {_VERIFY}"
        )
    pairs = read_parquet(content, f"{PATH} of {name}")
    if len(pairs) != entry["rows"]:
        raise EvaluationError(
            f"{PATH} of {name} has {len(pairs):,} pairs, but the manifest says {entry['rows']:,}; {_VERIFY}"
        )
    return pairs


def check(pairs: pa.Table, splits: frozenset[str], ids: Ids, where: str) -> None:
    """Check a table against the rows of its release.

    Args:
        pairs: the table.
        splits: the release's splits, as `config/split`.
        ids: returns the ids of a split; called only for splits that the table names.
        where: the release, for messages.

    Raises:
        EvaluationError: columns differ from `COLUMNS`, cells are empty, an id is paired with itself, or a split or id
            is not in the release.
    """
    if pairs.schema.remove_metadata() != pa.schema(COLUMNS.items()):
        found, wanted = (
            ", ".join(f"{one.name} {one.type}" for one in schema)
            for schema in (pairs.schema, pa.schema(COLUMNS.items()))
        )
        raise EvaluationError(f"{PATH} of {where} has the columns {found}, instead of {wanted}. {_REBUILD}")
    empty = [name for name in COLUMNS if pairs[name].null_count]
    if empty:
        raise EvaluationError(f"{PATH} of {where} has empty cells in {', '.join(empty)}. {_REBUILD}")
    alone = pairs["id"].filter(pc.equal(pairs["id"], pairs["other_id"]))
    if len(alone):
        raise EvaluationError(f"{PATH} of {where} pairs {alone[0]} with itself. {_REBUILD}")
    for split, named in ids_by_split(pairs).items():
        if split not in splits:
            raise EvaluationError(f"{PATH} names rows of {split}, a split that {where} does not have. {_REBUILD}")
        strangers = named.filter(pc.invert(pc.is_in(named, value_set=ids(*split.split("/", 1)).combine_chunks())))
        if len(strangers):
            raise EvaluationError(
                f"{PATH} names {len(strangers):,} ids that {split} of {where} does not have, such as {strangers[0]}. "
                f"{_REBUILD}"
            )


def ids_by_split(pairs: pa.Table) -> dict[str, pa.Array]:
    """Return the distinct ids of rows that appear in any pair, on either side, by `config/split`, sorted by split."""
    splits, ids = (
        pa.chunked_array([*pairs[name].chunks, *pairs[f"other_{name}"].chunks], pa.string())
        for name in ("split", "id")
    )
    return {split: pc.unique(ids.filter(pc.equal(splits, split))) for split in sorted(pc.unique(splits).to_pylist())}


def _download(name: str, commit: str, where: str) -> Path:
    """Download the table to the client's cache."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import RemoteEntryNotFoundError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    try:
        return Path(hf_hub_download(name, PATH, repo_type="dataset", revision=commit))
    except RemoteEntryNotFoundError as error:
        raise EvaluationError(
            f"{where} has no {PATH}, although its manifest names it. Publish the release again."
        ) from error
    except (httpx.HTTPError, OSError) as error:
        raise EvaluationError(f"Cannot download {PATH} of {where}: {first_line(error)}. Try again.") from error
