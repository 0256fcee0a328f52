"""Scores files: all that a report needs of a detector, whoever made it.

Parquet or CSV with the columns `id` and `score` (higher = more unknown), and of these what there is:

| column | what |
|---|---|
| `detector` | name of the detector; without it the whole file is one detector, named as the file |
| `prediction` | predicted class, as an index into the config's label names |
| `class` | predicted class by name, in place of `prediction` |

Predictions are needed only by protocols that ask which in-distribution rows are misclassified, and only for rows that
have a class. Files that `python -m evaluation score` writes also carry an `About`, as JSON in the Parquet schema's
metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from evaluation.errors import EvaluationError
from evaluation.files import replacing

METADATA = b"unknown_detection"
"""Key of the `About` in a Parquet schema's metadata."""

COLUMNS: Mapping[str, pa.DataType] = {
    "id": pa.string(),
    "detector": pa.string(),
    "score": pa.float64(),
    "prediction": pa.int64(),
    "class": pa.string(),
}
"""All columns that a scores file may have, in the order that they are written in."""

_SHOWN = 3


@dataclass(frozen=True)
class About:
    """Where scores come from.

    Attributes:
        release_digest: digest of the release whose rows were scored.
        configs: configs of it that were scored.
        model: name of the model, for people.
        model_digest: SHA-256 of its weights.
        seed: seed of the run.
        hyperparameters: of each detector, by name.
        versions: of the packages that the scores depend on, by name.
    """

    release_digest: str
    configs: tuple[str, ...]
    model: str
    model_digest: str
    seed: int
    hyperparameters: dict[str, dict[str, float]]
    versions: dict[str, str]


def write_scores(path: Path, scores: pa.Table, about: About) -> None:
    """Write a scores file; equal arguments give equal bytes.

    Args:
        path: a name that ends in `.parquet`; a file there is replaced at once or not at all.
        scores: `id` and `score`, and of `COLUMNS` what else there is; each id once for a detector, also where configs
            share rows.
        about: where the scores come from.

    Raises:
        EvaluationError: the name does not end in `.parquet`, or the table is not one of scores.
    """
    if path.suffix != ".parquet":
        raise EvaluationError(f"expected a name that ends in .parquet to write scores to, found {path}; rename it.")
    table = _checked(scores, str(path), COLUMNS)
    table = table.replace_schema_metadata({METADATA: json.dumps(asdict(about), sort_keys=True)})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_scores(path: Path, columns: Mapping[str, pa.DataType] = COLUMNS) -> tuple[pa.Table, About | None]:
    """Read a scores file.

    Args:
        path: a Parquet or CSV file.
        columns: all columns that it may have and their types, for a reader that takes other than `COLUMNS`.

    Returns:
        The table: `id`, `detector` (the file's name without its ending, where it has no such column), `score` as
        float64, and `prediction` and `class` where the file has them; and where the scores come from, if it says so.

    Raises:
        EvaluationError: the file cannot be read, has no rows, lacks a column, has one that means nothing here, or
            holds empty ids or scores that are not finite.
    """
    if not path.is_file():
        raise EvaluationError(f"expected a scores file at {path}, found none; check the path.")
    if path.suffix not in (".csv", ".parquet"):
        raise EvaluationError(f"expected scores as .parquet or .csv, found {path}; convert it.")
    try:
        table = pq.read_table(path) if path.suffix == ".parquet" else _read_csv(path, columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise EvaluationError(
            f"expected scores in {path}, found what cannot be read: {_first_line(error)}."
        ) from error
    about = _about(table.schema.metadata or {}, path)
    if not len(table):
        raise EvaluationError(f"expected scores in {path}, found no rows; write it again.")
    if "detector" not in table.column_names:
        table = table.append_column("detector", pa.repeat(path.stem, len(table)))
    return _checked(table, str(path), columns), about


def shown(ids: pa.Array | pa.ChunkedArray) -> str:
    """How many ids there are and the first of them, for a message.

    Args:
        ids: at least one string.

    Returns:
        Such as `5 ids (a, b, c, ...)`.
    """
    first = ", ".join(ids.slice(0, _SHOWN).to_pylist()) + (", ..." if len(ids) > _SHOWN else "")
    return f"{len(ids):,} id{'s' if len(ids) > 1 else ''} ({first})"


def _checked(table: pa.Table, where: str, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """The table with columns of `columns` in their order and types."""
    names = table.column_names
    if not {"id", "score"} <= set(names) <= set(columns) or len(set(names)) < len(names):
        others = ", ".join(name for name in columns if name not in ("id", "score"))
        raise EvaluationError(
            f"expected the columns id and score, and at most {others} beside them, in {where}, found "
            f"{', '.join(names)}; rename or take out the others."
        )
    try:
        table = pa.table({name: table[name].cast(kind) for name, kind in columns.items() if name in names})
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise EvaluationError(
            f"expected text as ids and names, numbers as scores and whole numbers as predictions in {where}, found: "
            f"{_first_line(error)}."
        ) from error
    for name in ("id", "detector"):
        if name in names and (table[name].null_count or pc.any(pc.equal(table[name], "")).as_py()):
            raise EvaluationError(f"expected a {name} in every row of {where}, found empty ones; fill them.")
    finite = pc.fill_null(pc.is_finite(table["score"]), False)
    if not pc.all(finite, min_count=0).as_py():
        bad = shown(table["id"].filter(pc.invert(finite)))
        raise EvaluationError(
            f"expected finite scores in {where}, found none, NaN or infinity at {bad}; mend the detector, since no "
            "metric can rank such rows."
        )
    return table


def _read_csv(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    # Types are given, so that ids like 00017 stay as they are.
    options = pa.csv.ConvertOptions(column_types=dict(columns), strings_can_be_null=True)
    return pa.csv.read_csv(path, convert_options=options)


def _about(metadata: Mapping[bytes, bytes], path: Path) -> About | None:
    if METADATA not in metadata:
        return None
    try:
        found = json.loads(metadata[METADATA])
        return About(**{**found, "configs": tuple(found["configs"])})
    except (ValueError, TypeError, KeyError) as error:
        raise EvaluationError(
            f"expected what `python -m evaluation score` notes in the metadata of {path}, found something else; "
            "write the file again, or without that metadata."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")
