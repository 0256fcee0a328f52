"""Scores files: a detector's scores in the format that reports read, whatever tool wrote them.

Parquet or CSV with the columns `id` and `score` (higher = more unknown), and optionally:

| column | content |
|---|---|
| `detector` | name of the detector; without it the file holds one detector, named after the file (`file_seed`) |
| `prediction` | predicted class, as an index into the config's label names; -1 for none of them |
| `class` | predicted class by name, in place of `prediction`; where a row has both, they say the same |
| `confidence` | probability of the predicted class, from 0 to 1, for protocols of one's own |

Names may be in capitals, and other columns are not read. Scores in memory have the same columns.
Predictions are needed only by protocols that evaluate misclassified in-distribution rows, and only for labelled rows.
Files written by `evaluate score` also carry an `Provenance`, as JSON in the Parquet schema's metadata.
"""

from __future__ import annotations

import csv
import difflib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from msgspec import Struct

from builders.storage.files import atomic_path
from unknown_detection.evaluation.errors import EvaluationError, a_kind, first_line, one_line
from unknown_detection.evaluation.files import Text, read_untrusted
from unknown_detection.evaluation.releases import Release
from unknown_detection.words import quantity

METADATA = b"unknown_detection"
"""Key of the `Provenance` in a Parquet schema's metadata."""

COLUMNS: Mapping[str, pa.DataType] = {
    "id": pa.string(),
    "detector": pa.string(),
    "score": pa.float64(),
    "prediction": pa.int64(),
    "class": pa.string(),
    "confidence": pa.float64(),
}
"""All columns that a scores file may have, in the order in which they are written."""

IN_MEMORY = "scores"
"""Name of scores in memory, and of their detector where no column names it."""

_SHOWN = 3

_LONGEST_LINE = 1 << 16
"""Bytes of a CSV file's first line."""

_OF_SEED = re.compile(r"(?P<name>.+?)[-_. ]?seed[-_. =]?(?P<seed>[0-9]{1,9})", re.IGNORECASE)


class Provenance(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The provenance of scores.

    Attributes:
        release_digest: digest of the release whose rows were scored.
        configs: the scored configs.
        model: name of the model, for display.
        model_digest: SHA-256 of its weights.
        seed: seed of the run.
        hyperparameters: hyperparameters of each detector, by name.
        versions: versions of the packages that the scores depend on, by name.
        prepared: how images that are prepared for a model's input were brought to this model's, by `config/split`.
        rows: the rows that each detector was fitted and tuned on, and those that a threshold may be chosen on, by the
            detector's name; in words.
        own: SHA-256 of the file that each detector of the user's own comes from, by the detector's name.
        fit_half: the `config/split` whose fit half (`fit.in_fit_half`) detectors were fitted on in place of
            training rows; its rows have no scores. Empty if there is none.
        source: what is said of the weights, see `Identity.source`, the receipt of the model, and where its accuracy
            differs from the published one, which the user accepted (`accepted`).
        splits: the scored splits as `config/split`; empty, as in earlier files, for all of the configs.
    """

    release_digest: Text
    configs: tuple[Text, ...]
    model: Text
    model_digest: Text
    seed: int
    hyperparameters: dict[Text, dict[Text, int | float]]
    versions: dict[Text, Text]
    prepared: dict[Text, Text] = {}
    rows: dict[Text, dict[Text, Text]] = {}
    own: dict[Text, Text] = {}
    fit_half: Text = ""
    source: dict[Text, Text] = {}
    splits: tuple[Text, ...] = ()


def write_scores(path: Path, scores: pa.Table, provenance: Provenance) -> None:
    """Write a scores file atomically; equal arguments produce equal bytes."""
    table = with_provenance(_checked(scores, str(path), COLUMNS), provenance)
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def with_provenance(scores: pa.Table, provenance: Provenance) -> pa.Table:
    """Record the provenance of a table of scores in its schema's metadata."""
    metadata = json.dumps(msgspec.to_builtins(provenance), sort_keys=True)
    return scores.replace_schema_metadata({METADATA: metadata})


def read_scores(
    source: Any, columns: Mapping[str, pa.DataType] = COLUMNS, release: Release | None = None
) -> tuple[pa.Table, Provenance | None]:
    """Read scores from a Parquet or CSV file, or check a table of Arrow, a DataFrame, or a mapping of ids to scores.

    They should be of the release, if one is given. The table has `id`, `detector` (the file's stem if there is no such
    column, or `IN_MEMORY`), `score` as float64, and the others of `columns` that are present.
    """
    if isinstance(source, str | Path):
        where, name, table = str(source), file_seed(Path(source))[0], _read_file(Path(source), columns)
    else:
        where, name, table = "The table of scores", IN_MEMORY, _from_memory(source)
    provenance = _provenance(table.schema.metadata or {}, where)
    if provenance is not None and release is not None and provenance.release_digest != release.digest:
        raise EvaluationError(
            f"{where} has scores of a release with digest {provenance.release_digest[:12]}, not of {release.name} "
            f"(digest {release.digest[:12]}). Score this release, or name the other one with --release."
        )
    if not len(table):
        raise EvaluationError(f"{where} has no rows; write it again.")
    if "detector" not in [column.strip().lower() for column in table.column_names]:
        table = table.append_column("detector", pa.repeat(name, len(table)))
    return _checked(table, where, columns), provenance


def _read_file(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    if not path.is_file():
        raise EvaluationError(f"There is no scores file {path}; check the path.")
    if path.suffix not in (".csv", ".parquet"):
        raise EvaluationError(f"{path} is neither .parquet nor .csv; convert it.")
    try:
        if path.suffix == ".csv":
            table = _read_csv(path, columns)
        else:
            table = read_untrusted(path, f"scores from {path}", lambda names: [*_known(names, columns, str(path))])
        _ = table.column_names  # Arrow does not check the first line's encoding
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise EvaluationError(f"Cannot read scores from {path}: {first_line(error)}. Write the file again.") from error
    return table


def _from_memory(values: Any) -> pa.Table:
    try:
        if isinstance(values, pa.Table):
            return values
        if hasattr(values, "columns"):  # a DataFrame, without an import of pandas
            table = pa.Table.from_pandas(values, preserve_index=False).replace_schema_metadata(None)
            stated = getattr(values, "attrs", {}).get("provenance")
            return table.replace_schema_metadata({METADATA: json.dumps(stated)}) if stated else table
        if hasattr(values, "items"):  # a dictionary or a Series
            ids, scores = [id_ for id_, _ in values.items()], [score for _, score in values.items()]
            return pa.table({"id": pa.array(ids, pa.string()), "score": pa.array(scores, pa.float64())})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise EvaluationError(
            f"The scores cannot be read as a table: {first_line(error)}. Ids are text, scores are numbers."
        ) from error
    raise TypeError(
        "Scores are a table or a DataFrame with the columns id and score, a dictionary or a Series of id to score, or "
        f"a file, not {a_kind(values)}."
    )


def file_seed(path: Path) -> tuple[str, int | None]:
    """Divide a file's stem into a detector's name and a seed: `mine-seed2.csv` is seed 2 of `mine`, else None."""
    match = _OF_SEED.fullmatch(path.stem)
    return (match["name"], int(match["seed"])) if match else (path.stem, None)


def summarize_ids(ids: Any) -> str:
    """Summarize ids, in an array of NumPy or Arrow, for a message, as in `5 ids (a, b, c, ...)`."""
    first = ", ".join(one_line(str(id_)) for id_ in ids[:_SHOWN]) + (", ..." if len(ids) > _SHOWN else "")
    return f"{quantity(len(ids), 'id')} ({first})"


def _checked(table: pa.Table, where: str, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Check a table's columns and values, and return it with the order and types of `columns`."""
    known = _known(table.column_names, columns, where)
    table = table.select([*known]).rename_columns([*known.values()])
    names = table.column_names
    try:
        table = pa.table({name: table[name].cast(kind) for name, kind in columns.items() if name in names})
    except pa.ArrowException as error:
        raise EvaluationError(
            f"{where} has values of a wrong type: {first_line(error)}. Ids and names are text, scores are numbers, "
            "predictions are integers."
        ) from error
    for name in ("id", "detector"):
        if name in names and (table[name].null_count or pc.any(pc.equal(table[name], "")).as_py()):
            raise EvaluationError(f"{where} has rows without {'an' if name == 'id' else 'a'} {name}; fill them.")
    finite = pc.fill_null(pc.is_finite(table["score"]), False)
    if not pc.all(finite, min_count=0).as_py():
        bad = summarize_ids(table["id"].filter(pc.invert(finite)))
        raise EvaluationError(
            f"{where} has empty, NaN or infinite scores at {bad}. Fix the detector: no metric can rank such rows."
        )
    if "confidence" in names:
        values = pc.fill_null(table["confidence"], 0.5)
        outside = pc.invert(pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, 1)))
        if pc.any(outside).as_py():
            raise EvaluationError(
                f"{where} has confidences that are not from 0 to 1 at {summarize_ids(table['id'].filter(outside))}. "
                "Give the probability of the predicted class, or leave the column out."
            )
    return table


def _read_csv(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Read the known columns of a CSV file."""
    with path.open("rb") as file:
        first = file.readline(_LONGEST_LINE).decode("utf-8-sig")
    names = next(csv.reader([first.strip()]), [])
    # Explicit types keep ids such as 00017 as text.
    kinds = {name: columns[key] for name, key in _known(names, columns, str(path)).items()} if names else {}
    options = pa.csv.ConvertOptions(column_types=kinds, include_columns=list(kinds), strings_can_be_null=True)
    return pa.csv.read_csv(path, convert_options=options)


def _known(names: Sequence[str], columns: Mapping[str, pa.DataType], where: str) -> dict[str, str]:
    """Return those columns of a file that are known, each with its key in `columns`, without regard to case."""
    keys = [name.strip().lower() for name in names]
    known = [key if key in columns else "" for key in keys]
    for key in columns:
        if known.count(key) > 1:
            raise EvaluationError(
                f"{where} has the column {key} {known.count(key)} times (found: {one_line(', '.join(names))}). Keep "
                "one of them."
            )
    optional = [name for name in columns if name not in ("id", "score")]
    if not {"id", "score"} <= set(known):
        raise EvaluationError(
            f"{where} needs the columns id and score, and may have {', '.join(optional)} (found: "
            f"{one_line(', '.join(names))}). Rename its columns, and in CSV separate them by commas."
        )
    for name, key in zip(keys, known, strict=True):
        near = [] if key else difflib.get_close_matches(name, {*optional} - {*keys}, n=1, cutoff=0.55)
        if near:
            raise EvaluationError(
                f"{where} has a column {one_line(name, 60)}, which is not read. Rename it to {near[0]} if that is "
                "what it holds, or to something else."
            )
    return {name: key for name, key in zip(names, known, strict=True) if key}


def _provenance(metadata: Mapping[bytes, bytes], where: str) -> Provenance | None:
    if METADATA not in metadata:
        return None
    try:
        return msgspec.json.decode(metadata[METADATA], type=Provenance)
    except ValueError as error:
        raise EvaluationError(
            f"The metadata of {where} is not valid provenance as `python -m unknown_detection evaluate score` "
            "writes it. Write the file again, or without that metadata."
        ) from error
