"""Reads and writes scores: a table of ids and scores from any tool, in memory or a file, with its provenance.

A DataFrame, a table of Arrow, Parquet or CSV with the columns `id` and `score` (higher = more unknown) and optionally:

| column | content |
|---|---|
| `detector` | name of the detector; without it there is one detector, named after the file |
| `prediction` | predicted class, as an index into the config's label names; -1 for none of them |
| `seed` | seed that the model was trained with, the same in all rows: runs that differ by it are averaged |

Other columns are not read. A dictionary or a Series maps ids to the scores of one detector. Predictions are needed
only by protocols that evaluate misclassified in-distribution rows, and only for labelled rows. What `score` returns
and writes has a `Provenance` as `attrs["provenance"]`; in Parquet it stands where pandas keeps `attrs`.
"""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from msgspec import Struct

from builders.storage.files import atomic_path
from unknown_detection.evaluation.errors import EvaluationError, a_kind, first_line, one_line
from unknown_detection.evaluation.files import Text, read_untrusted
from unknown_detection.evaluation.releases import Release
from unknown_detection.words import is_printable, quantity

METADATA = b"PANDAS_ATTRS"
"""Key of a Parquet schema's metadata where pandas keeps a DataFrame's `attrs`, as JSON."""

COLUMNS: Mapping[str, pa.DataType] = {
    "id": pa.string(),
    "detector": pa.string(),
    "score": pa.float64(),
    "prediction": pa.int64(),
    "seed": pa.int64(),
}
"""All columns that scores may have, in the order in which they are written."""

IN_MEMORY = "scores"
"""Name of scores in memory, and of their detector where no column names it."""

_SHOWN = 3

_LONGEST_LINE = 1 << 16
"""Bytes of a CSV file's first line."""


class Provenance(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where scores come from: model, release, detectors and their settings, as far as known.

    Attributes:
        release_digest: digest of the release whose rows were scored.
        configs: the scored configs.
        model: name of the model, for display.
        model_digest: SHA-256 of its weights.
        probed: its logits of fixed inputs, see `Identity.probed`; of several models, one after another.
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
        missing: why detectors that were asked for have no scores, by their names.
        thresholds: scores above which rows were decided unknown, by detector.
        at_known: of these thresholds the share of known rows that was `asked` for, the number of `rows` that they were
            chosen on, and the `quantile` of these.
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
    probed: tuple[float, ...] = ()
    splits: tuple[Text, ...] = ()
    missing: dict[Text, Text] = {}
    thresholds: dict[Text, float] = {}
    at_known: dict[Text, float] = {}


class _Attrs(Struct):
    """What is read of a DataFrame's `attrs`."""

    provenance: Provenance | None = None


def write_scores(path: Path, scores: pa.Table, provenance: Provenance) -> None:
    """Write a scores file atomically; equal arguments produce equal bytes."""
    table = _with_attrs(
        _checked(scores, str(path), {**COLUMNS, "decision": pa.string()}), msgspec.to_builtins(provenance)
    )
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_scores(
    source: Any, columns: Mapping[str, pa.DataType] = COLUMNS, release: Release | None = None
) -> tuple[pa.Table, Provenance | None]:
    """Read and check scores: a Parquet or CSV file, an Arrow table, a DataFrame, or a mapping from ids to scores.

    They should be of the release, if one is given. The table has `id`, `detector` (the file's stem if there is no such
    column, or `IN_MEMORY`), `score` as float64, and the others of `columns` that are present.
    """
    in_file = isinstance(source, str | Path)
    where, name = (str(source), Path(source).stem) if in_file else ("The table of scores", IN_MEMORY)
    table = _read_file(Path(source), columns) if in_file else _from_memory(source)
    provenance = _provenance(table.schema.metadata or {}, where)
    if provenance is not None and release is not None and provenance.release_digest != release.digest:
        raise EvaluationError(
            f"{where} has scores of a release with digest {provenance.release_digest[:12]}, not of {release.name} "
            f"(digest {release.digest[:12]}). Score this release, or name the other one with release=."
        )
    if not len(table):
        raise EvaluationError(f"{where} has no rows; write it again.")
    table = _checked(table, where, columns)
    if "detector" not in table.column_names:
        table = table.add_column(1, "detector", pa.repeat(name, len(table)))
    return table, provenance


def _read_file(path: Path, columns: Mapping[str, pa.DataType]) -> pa.Table:
    if not path.is_file():
        raise EvaluationError(f"There is no scores file {path}; check the path.")
    if path.suffix not in (".csv", ".parquet"):
        raise EvaluationError(f"{path} is neither .parquet nor .csv; convert it.")
    if path.suffix == ".parquet":
        return read_untrusted(path, f"scores from {path}", lambda names: _known(names, columns, str(path)))
    try:
        with path.open("rb") as file:
            first = file.readline(_LONGEST_LINE).decode("utf-8-sig")
        known = _known(next(csv.reader([first.strip()]), []), columns, str(path))
        # Explicit types keep ids such as 00017 as text.
        options = pa.csv.ConvertOptions(column_types=dict(columns), include_columns=known, strings_can_be_null=True)
        return pa.csv.read_csv(path, convert_options=options)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise EvaluationError(
            f"Cannot read scores from {path}: {first_line(error)}. Write the file again, a CSV as UTF-8."
        ) from error


def _from_memory(values: Any) -> pa.Table:
    try:
        if isinstance(values, Mapping) and {"id", "score"} <= values.keys():
            return pa.table(dict(values))
        if hasattr(values, "__arrow_c_stream__") and not isinstance(values, pd.DataFrame | pd.Series):
            return pa.table(values)  # Arrow's own, or of polars
        if isinstance(values, pd.DataFrame):
            table = pa.Table.from_pandas(values, preserve_index="id" in values.index.names)
            return _with_attrs(table, values.attrs.get("provenance"))
        if isinstance(values, Mapping | pd.Series):
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


def summarize_ids(ids: Any) -> str:
    """Summarize ids, a NumPy or Arrow array, for a message, as in `5 ids (a, b, c, ...)`."""
    first = ", ".join(one_line(str(id_)) for id_ in ids[:_SHOWN]) + (", ..." if len(ids) > _SHOWN else "")
    return f"{quantity(len(ids), 'id')} ({first})"


def _checked(table: pa.Table, where: str, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Check a table's columns and values, and return it with the order and types of `columns`."""
    names = _known(table.column_names, columns, where)
    if "prediction" in names and pa.types.is_boolean(table["prediction"].type):
        raise EvaluationError(
            f"{where} has predictions that are true or false. Give the index of the predicted class."
        )
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
    if "detector" in names:
        odd = [name for name in table["detector"].unique().to_pylist() if not is_printable(name)]
        if odd:
            raise EvaluationError(
                f"{where} has a detector {one_line(odd[0], 60)}, with signs that are not printed. Rename it."
            )
    if "seed" in names and pc.count_distinct(table["seed"], mode="all").as_py() > 1:
        raise EvaluationError(f"{where} has scores of several seeds; give those of each seed as a table of their own.")
    finite = pc.fill_null(pc.is_finite(table["score"]), False)
    if not pc.all(finite, min_count=0).as_py():
        bad = summarize_ids(table["id"].filter(pc.invert(finite)))
        raise EvaluationError(
            f"{where} has empty, NaN or infinite scores at {bad}. Fix the detector: no metric can rank such rows."
        )
    return table


def _known(names: Sequence[str], columns: Mapping[str, pa.DataType], where: str) -> list[str]:
    """Return the columns of scores among some names; refuse missing and repeated ones, and what may be misspelled."""
    found = f"(found: {one_line(', '.join(names))})"
    for name in columns:
        if names.count(name) > 1:
            raise EvaluationError(
                f"{where} has the column {name} {names.count(name)} times {found}. Keep one of them."
            )
    optional = [name for name in columns if name not in ("id", "score")]
    if not {"id", "score"} <= {*names}:
        raise EvaluationError(
            f"{where} needs the columns id and score, and may have {', '.join(optional)} {found}. Rename its columns, "
            "and in CSV separate them by commas."
        )
    for name in names:
        near = difflib.get_close_matches(name.strip().lower(), {*optional} - {*names}, n=1, cutoff=0.55)
        if name not in columns and near:
            raise EvaluationError(
                f"{where} has a column {one_line(name, 60)}, which is not read; did you mean {near[0]}? Rename it."
            )
    return [name for name in names if name in columns]


def _with_attrs(table: pa.Table, provenance: Any) -> pa.Table:
    """Return a table with provenance, if there is any, in its metadata, and nothing else there."""
    attrs = json.dumps({"provenance": provenance}, sort_keys=True)
    return table.replace_schema_metadata({METADATA: attrs} if provenance else None)


def _provenance(metadata: Mapping[bytes, bytes], where: str) -> Provenance | None:
    try:
        return msgspec.json.decode(metadata.get(METADATA, b"{}"), type=_Attrs).provenance
    except ValueError as error:
        raise EvaluationError(
            f"The metadata of {where} is not valid provenance as `python -m unknown_detection evaluate score` "
            "writes it. Write the file again, or without that metadata."
        ) from error
