"""All figures of a report as one tidy table: one line a number, with everything that says what it is a number of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from evaluation.errors import EvaluationError
from evaluation.files import replacing
from evaluation.protocols.figures import Figure

FORMAT = 2
"""Version of the schema below; a reader refuses one that it does not know."""

METADATA = b"unknown_detection_figures"
"""Key in the Parquet schema's metadata that holds `FORMAT`."""


ALL_VARIANTS = "*"
"""The variant of a figure that is of several ways of training together."""


@dataclass(frozen=True)
class Column:
    """A column of the table: its type and what stands in it."""

    kind: pa.DataType
    what: str


COLUMNS: Mapping[str, Column] = {
    "release": Column(pa.string(), "name of the release: its folder's name, or ORG/NAME at a commit"),
    "release_digest": Column(pa.string(), "SHA-256 over the digests of all its splits"),
    "duplicates_sha256": Column(pa.string(), "SHA-256 of its table of duplicates, or empty where it has none"),
    "model": Column(pa.string(), "name of the model, or empty where the scores file does not say"),
    "model_digest": Column(pa.string(), "SHA-256 of its weights, or empty"),
    "variant": Column(pa.string(), "way of training, such as an optimizer; `*` for a figure of all together"),
    "run": Column(pa.string(), "name of the scores file without its ending"),
    "seed": Column(pa.int64(), "seed of the run; null where the scores file does not say"),
    "detector": Column(pa.string(), "name of the detector"),
    "hyperparameters": Column(pa.string(), "the detector's, as JSON"),
    "protocol": Column(pa.string(), "name of the protocol"),
    "config": Column(pa.string(), "config of the release; of several the names, joined by ` + `"),
    "setting": Column(pa.string(), "what is asked of the detector"),
    "known": Column(pa.string(), "split of the rows that ought to be accepted"),
    "unknown": Column(pa.string(), "split of the rows that ought to be refused"),
    "metric": Column(pa.string(), "name of the metric"),
    "positive": Column(pa.string(), "side that the metric counts as positive, `known` or `unknown`, or empty"),
    "rows": Column(
        pa.string(),
        "`as_published`, or `without_duplicates`: without rows that show the same picture as another row",
    ),
    "statistic": Column(pa.string(), "`mean` and so on for a figure of other figures, else empty"),
    "fitted_on": Column(pa.string(), "split of unknowns that a threshold was fitted on, or empty"),
    "value": Column(pa.float64(), "the figure, a rate or an area from 0 to 1; NaN where one side has no rows"),
    "factor": Column(pa.float64(), "what the protocol's paper multiplies it by before it prints it"),
    "n_known": Column(pa.int64(), "rows that ought to be accepted"),
    "n_unknown": Column(pa.int64(), "rows that ought to be refused"),
    "left_out": Column(pa.int64(), "rows of both sides that are left out as duplicates; 0 `as_published`"),
    "versions": Column(pa.string(), "versions of the packages that rows were `scored` and `judged` with, as JSON"),
}
"""The schema, in the order of columns; README's and the reports' descriptions are made of it."""

Line = Mapping[str, Any]
"""A line of a table of figures: values by the names of columns."""

NAMES_A_FIGURE = (
    "protocol", "config", "setting", "known", "unknown", "metric", "positive", "rows", "statistic", "fitted_on"
)  # fmt: skip
"""Columns that say which number it is, of whichever detector and run."""


@dataclass(frozen=True)
class Run:
    """One scores file: a model with its detectors.

    Attributes:
        name: the file's name without its ending.
        variant: way of training.
        seed: None where the file does not say.
        model: name of the model, or empty.
        model_digest: of its weights, or empty.
        hyperparameters: of each detector.
        versions: of the packages that the rows were `scored` and are `judged` with.
    """

    name: str
    variant: str
    seed: int | None
    model: str
    model_digest: str
    hyperparameters: Mapping[str, Mapping[str, float]]
    versions: Mapping[str, Mapping[str, str]]


def tidy(
    judged: Iterable[tuple[Run, str, Iterable[Figure]]],
    *,
    release: str,
    release_digest: str,
    duplicates_sha256: str = "",
) -> pa.Table:
    """Set figures of several runs and detectors under each other.

    Args:
        judged: runs, each with the name of a detector and its figures.
        release: name of the release.
        release_digest: its digest.
        duplicates_sha256: of its table of duplicates; empty where it has none.

    Returns:
        A table with `COLUMNS`.

    Raises:
        EvaluationError: two runs are the same, by variant, weights, seed and detector, so that a mean over them would
            count one twice.
    """
    lines = []
    for run, detector, figures in judged:
        of_run = {
            "release": release,
            "release_digest": release_digest,
            "duplicates_sha256": duplicates_sha256,
            "model": run.model,
            "model_digest": run.model_digest,
            "variant": run.variant,
            "run": run.name,
            "seed": run.seed,
            "detector": detector,
            "hyperparameters": _json(run.hyperparameters.get(detector, {})),
            "versions": _json(run.versions),
        }
        lines += [of_run | asdict(figure) for figure in figures]
    _refuse_twice(lines)
    return pa.Table.from_pylist(lines, _schema())


def over_runs(figures: pa.Table) -> pa.Table:
    """Mean and standard deviation over the runs of a variant, which differ by seed.

    Args:
        figures: as `tidy` gives them.

    Returns:
        `variant`, `detector`, the columns of `NAMES_A_FIGURE` and `factor`, then `runs`, `mean` and `std`: the sample
        standard deviation (of n - 1), null for one run. In the order in which figures first come.
    """
    keys = ["variant", "detector", *NAMES_A_FIGURE, "factor"]
    # Arrow gives groups in no order of ours, with one thread neither.
    numbered = figures.append_column("place", pa.array(range(len(figures)), pa.int64()))
    groups = numbered.group_by(keys, use_threads=False).aggregate(
        [("value", "count"), ("value", "mean"), ("value", "stddev", pc.VarianceOptions(ddof=1)), ("place", "min")]
    )
    groups = groups.sort_by("place_min")
    return groups.select([*keys, "value_count", "value_mean", "value_stddev"]).rename_columns(
        [*keys, "runs", "mean", "std"]
    )


def grouped(lines: Iterable[Line], *names: str) -> list[tuple[tuple[str, ...], list[Line]]]:
    """Lines with equal values in some columns together, in the order in which the values first come.

    Args:
        lines: any.
        names: the columns; without any, all lines are one group.

    Returns:
        The values, and the lines that have them.
    """
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[name] for name in names), []).append(line)
    return list(groups.items())


def write_figures(folder: Path, figures: pa.Table) -> list[str]:
    """Write `figures.parquet` and `figures.csv`; equal tables give equal bytes.

    Returns:
        The names of the files.
    """
    with replacing(folder / "figures.parquet") as temporary:
        pq.write_table(figures.replace_schema_metadata({METADATA: str(FORMAT)}), temporary, compression="zstd")
    with replacing(folder / "figures.csv") as temporary:
        pa.csv.write_csv(figures, temporary, pa.csv.WriteOptions(quoting_style="needed"))
    return ["figures.csv", "figures.parquet"]


def read_figures(where: Path) -> pa.Table:
    """Read the figures of a report.

    Args:
        where: the report's folder, or its `figures.parquet`.

    Raises:
        EvaluationError: there are none, or they are of another format.
    """
    path = where / "figures.parquet" if where.is_dir() else where
    if not path.is_file():
        raise EvaluationError(f"expected a report at {where}, found no {path.name} there; check the path.")
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise EvaluationError(
            f"expected figures in {path}, found a file that cannot be read; report again."
        ) from error
    found = (table.schema.metadata or {}).get(METADATA, b"none").decode()
    if found != str(FORMAT) or not table.schema.equals(_schema()):
        raise EvaluationError(
            f"expected figures of format {FORMAT} in {path}, found {found}; make the report again with this version."
        )
    return table


def _schema() -> pa.Schema:
    return pa.schema([(name, column.kind) for name, column in COLUMNS.items()])


def _refuse_twice(lines: Iterable[Mapping[str, Any]]) -> None:
    seen: dict[tuple[Any, ...], str] = {}
    for line in lines:
        key = tuple(line[name] for name in ("variant", "model_digest", "seed", "detector", *NAMES_A_FIGURE))
        if line["model_digest"] and key in seen:
            raise EvaluationError(
                f"expected runs that differ by seed or weights, found {line['detector']} of seed {line['seed']} and "
                f"the same weights in {seen[key]} and {line['run']}; leave one out, or name two variants."
            )
        seen[key] = line["run"]


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
