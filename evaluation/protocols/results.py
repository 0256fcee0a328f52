"""The tidy table of all figures of a report: one line per number, with the columns that identify it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from evaluation.errors import EvaluationError, one_line
from evaluation.files import atomic_path, read_parquet
from evaluation.protocols.figures import Figure

FORMAT = 3
"""Version of the schema below; readers refuse other versions."""

METADATA = b"unknown_detection_figures"
"""Key in the Parquet schema's metadata that holds `FORMAT`."""


ALL_VARIANTS = "*"
"""The variant of figures over several training methods."""


@dataclass(frozen=True)
class Column:
    """A column of the table: its type and description."""

    kind: pa.DataType
    description: str


COLUMNS: Mapping[str, Column] = {
    "release": Column(pa.string(), "name of the release: its folder's name, or ORG/NAME at a commit"),
    "release_digest": Column(pa.string(), "SHA-256 over the digests of all its splits"),
    "duplicates_sha256": Column(pa.string(), "SHA-256 of its table of duplicates, or empty if it has none"),
    "model": Column(pa.string(), "name of the model, or empty if the scores file does not state it"),
    "model_digest": Column(pa.string(), "SHA-256 of its weights, or empty"),
    "variant": Column(pa.string(), "training method, such as an optimizer; `*` for a figure over all of them"),
    "run": Column(pa.string(), "name of the scores file without its ending"),
    "seed": Column(pa.int64(), "seed of the run; null if the scores file does not state it"),
    "detector": Column(pa.string(), "name of the detector"),
    "hyperparameters": Column(pa.string(), "hyperparameters of the detector, as JSON"),
    "protocol": Column(pa.string(), "name of the protocol"),
    "config": Column(pa.string(), "config of the release; several are joined by ` + `"),
    "setting": Column(pa.string(), "task of the detector"),
    "known": Column(pa.string(), "split of the known rows"),
    "unknown": Column(pa.string(), "split of the unknown rows"),
    "metric": Column(pa.string(), "name of the metric"),
    "positive": Column(pa.string(), "positive class of the metric, `known` or `unknown`, or empty"),
    "rows": Column(
        pa.string(),
        "`as_published`; `without_duplicates`: without rows that duplicate another row; or `without_overlap`: without "
        "unknown rows whose class is, holds or shows a known one",
    ),
    "statistic": Column(pa.string(), "`mean` and so on for a statistic of other figures, else empty"),
    "fitted_on": Column(pa.string(), "OoD split that a threshold was fitted on, or empty"),
    "value": Column(pa.float64(), "the figure, a rate or an area from 0 to 1; NaN if one class has no rows"),
    "factor": Column(pa.float64(), "factor by which the protocol's paper multiplies it"),
    "n_known": Column(pa.int64(), "number of known rows"),
    "n_unknown": Column(pa.int64(), "number of unknown rows"),
    "left_out": Column(pa.int64(), "number of rows left out as duplicates or for their overlap; 0 `as_published`"),
    "prepared": Column(
        pa.string(),
        "how the run's model got images that are prepared for a model's input, by `config/split`, as JSON: as stored, "
        "or resized for a model with another input",
    ),
    "versions": Column(
        pa.string(), "versions of the packages that `scored` the rows and `judged` the scores, as JSON"
    ),
}
"""The schema, in column order; also the source of the column descriptions in reports."""

Line = Mapping[str, Any]
"""A line of the table: values by column."""

FIGURE_KEY = (
    "protocol", "config", "setting", "known", "unknown", "metric", "positive", "rows", "statistic", "fitted_on"
)  # fmt: skip
"""The columns that identify a figure among those of a detector and run."""


@dataclass(frozen=True)
class Run:
    """A run: one scores file of a model's detectors.

    Attributes:
        name: the file's stem.
        variant: training method.
        seed: random seed; None if the file does not state it.
        model: name of the model, or empty.
        model_digest: digest of the model, or empty.
        hyperparameters: hyperparameters by detector.
        versions: versions of the packages that `scored` the rows and `judged` the scores.
        prepared: how the model got images that are prepared for a model's input, by `config/split`.
        fit_half: the `config/split` that detectors were fitted on half of, for want of training rows; empty if not.
    """

    name: str
    variant: str
    seed: int | None
    model: str
    model_digest: str
    hyperparameters: Mapping[str, Mapping[str, float]]
    versions: Mapping[str, Mapping[str, str]]
    prepared: Mapping[str, str] = field(default_factory=dict)
    fit_half: str = ""


def tidy(
    evaluated: Iterable[tuple[Run, str, Iterable[Figure]]],
    *,
    release: str,
    release_digest: str,
    duplicates_sha256: str = "",
) -> pa.Table:
    """Build the table of figures of several runs and detectors.

    Args:
        evaluated: runs, each with a detector's name and figures.
        release: name of the release.
        release_digest: digest of the release.
        duplicates_sha256: SHA-256 of its table of duplicates; empty if it has none.

    Returns:
        A table with `COLUMNS`.

    Raises:
        EvaluationError: two runs have the same variant, weights, seed and detector, so that a mean would count one
            twice.
    """
    lines = []
    for run, detector, figures in evaluated:
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
            "prepared": _json(run.prepared),
            "versions": _json(run.versions),
        }
        lines += [of_run | asdict(figure) for figure in figures]
    _refuse_twice(lines)
    return pa.Table.from_pylist(lines, _schema())


def over_runs(figures: pa.Table) -> pa.Table:
    """Compute mean and standard deviation over the runs of each variant, which differ by seed.

    Args:
        figures: the result of `tidy`.

    Returns:
        `variant`, `detector`, the columns of `FIGURE_KEY` and `factor`, then `runs`, `mean` and `std`: the sample
        standard deviation (of n - 1), null for one run. In the order of each figure's first line.
    """
    keys = ["variant", "detector", *FIGURE_KEY, "factor"]
    # The order of Arrow's groups is not specified, even with one thread.
    numbered = figures.append_column("place", pa.array(range(len(figures)), pa.int64()))
    groups = numbered.group_by(keys, use_threads=False).aggregate(
        [("value", "count"), ("value", "mean"), ("value", "stddev", pc.VarianceOptions(ddof=1)), ("place", "min")]
    )
    groups = groups.sort_by("place_min")
    return groups.select([*keys, "value_count", "value_mean", "value_stddev"]).rename_columns(
        [*keys, "runs", "mean", "std"]
    )


def grouped(lines: Iterable[Line], *names: str) -> list[tuple[tuple[str, ...], list[Line]]]:
    """Group lines by the values of some columns, in order of first occurrence.

    Args:
        lines: the lines.
        names: the columns; without any, all lines form one group.

    Returns:
        The values and lines of each group.
    """
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[name] for name in names), []).append(line)
    return list(groups.items())


def write_figures(folder: Path, figures: pa.Table) -> list[str]:
    """Write `figures.parquet` and `figures.csv`; equal tables produce equal bytes.

    Returns:
        The names of the files.
    """
    with atomic_path(folder / "figures.parquet") as temporary:
        pq.write_table(figures.replace_schema_metadata({METADATA: str(FORMAT)}), temporary, compression="zstd")
    with atomic_path(folder / "figures.csv") as temporary:
        pa.csv.write_csv(figures, temporary, pa.csv.WriteOptions(quoting_style="needed"))
    return ["figures.csv", "figures.parquet"]


def read_figures(where: Path) -> pa.Table:
    """Read the figures of a report.

    Args:
        where: the report's folder, or its `figures.parquet`.

    Raises:
        EvaluationError: there are no figures, or they have another format.
    """
    path = where / "figures.parquet" if where.is_dir() else where
    if not path.is_file():
        raise EvaluationError(f"{where} is not a report: it has no {path.name}. Check the path.")
    table = read_parquet(path, f"the figures {path}")
    found = one_line((table.schema.metadata or {}).get(METADATA, b"none").decode("utf-8", "replace"), 40)
    if found != str(FORMAT) or not table.schema.equals(_schema()):
        raise EvaluationError(
            f"{path} has format {found}, but this version reads format {FORMAT}. Write the report again."
        )
    return table


def _schema() -> pa.Schema:
    return pa.schema([(name, column.kind) for name, column in COLUMNS.items()])


def _refuse_twice(lines: Iterable[Mapping[str, Any]]) -> None:
    seen: dict[tuple[Any, ...], str] = {}
    for line in lines:
        key = tuple(line[name] for name in ("variant", "model_digest", "seed", "detector", *FIGURE_KEY))
        if line["model_digest"] and key in seen:
            raise EvaluationError(
                f"{seen[key]} and {line['run']} both have {line['detector']} with seed {line['seed']} and the same "
                "weights. Leave one out, or name two variants."
            )
        seen[key] = line["run"]


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
