"""The tidy table of all figures of a report: one line per number.

Tested by `tests/evaluation/report/test_figures.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from builders.storage.files import atomic_path, write_text
from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.protocols.protocol import FIGURE_KEY, Figure

FILE = "figures.parquet"
"""Name of the file in a report's folder."""

COLUMNS: Mapping[str, tuple[pa.DataType, str]] = {
    "release": (pa.string(), "name of the release: its folder's name, or ORG/NAME at a commit"),
    "release_digest": (pa.string(), "SHA-256 over the digests of all its splits"),
    "duplicates_sha256": (pa.string(), "SHA-256 of its table of duplicates, or empty if it has none"),
    "model": (pa.string(), "name of the model, or empty if the scores file does not state it"),
    "model_digest": (pa.string(), "SHA-256 of its weights, or empty"),
    "variant": (pa.string(), "training method, such as an optimizer; `*` for a figure over all of them"),
    "run": (pa.string(), "name of the scores file without its ending"),
    "seed": (pa.int64(), "seed of the run; null if the scores file does not state it"),
    "detector": (pa.string(), "name of the detector"),
    "hyperparameters": (pa.string(), "hyperparameters of the detector, as JSON"),
    "protocol": (pa.string(), "name of the protocol"),
    "config": (pa.string(), "config of the release; several are joined by ` + `"),
    "setting": (pa.string(), "task of the detector, such as `ood_detection`, `dsd` or `od_test`"),
    "known": (pa.string(), "the known rows: a split, and which of its rows if not all"),
    "unknown": (pa.string(), "the unknown rows; several splits, or sets of a statistic, are joined by ` + `"),
    "metric": (pa.string(), "name of the metric"),
    "positive": (pa.string(), "positive class of the metric, `known` or `unknown`, or empty"),
    "rows": (
        pa.string(),
        "`as_published`; `without_duplicates`: without rows that duplicate another row; or `without_overlap`: without "
        "unknown rows whose class is, holds or shows a known one",
    ),
    "statistic": (pa.string(), "`mean` and so on for a statistic of other figures, else empty"),
    "fitted_on": (pa.string(), "OoD split that a threshold was fitted on, or empty"),
    "value": (pa.float64(), "the figure, from 0 to 1; NaN if predictions leave one class without rows"),
    "factor": (pa.float64(), "factor by which the protocol's paper multiplies it"),
    "n_known": (pa.int64(), "number of known rows; for a statistic, summed over its figures"),
    "n_unknown": (pa.int64(), "number of unknown rows, likewise"),
    "left_out": (
        pa.int64(),
        "number of rows left out as duplicates or for their overlap; 0 `as_published`, null if whole sets are",
    ),
    "prepared": (
        pa.string(),
        "how images that are prepared for a model's input were read, by `config/split`, as JSON",
    ),
    "versions": (pa.string(), "versions of the packages that `scored` the rows and `judged` the scores, as JSON"),
}
"""Type and description of each column, in order."""

_SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])


def tidy(judged: Iterable[tuple[Mapping[str, Any], Iterable[Figure]]]) -> pd.DataFrame:
    """Build the table of figures, each with the columns that say of which release, run and detector it is.

    Refuses two runs with the same figure, if they are of the same weights, or say neither model nor training method.
    """
    lines = [{**columns, **figure} for columns, figures in judged for figure in figures]
    # A seed may be missing, so integers are nullable.
    figures: pd.DataFrame = pa.Table.from_pylist(lines, _SCHEMA).to_pandas(
        types_mapper={pa.int64(): pd.Int64Dtype()}.get
    )
    keys = ["variant", "model_digest", "seed", "detector", *FIGURE_KEY]
    told = (figures["model_digest"] != "") | (figures["variant"] == "")
    repeated = figures[told & figures.duplicated(keys, keep=False)]
    for (variant, _, seed, detector, *_), runs in repeated.groupby(keys, sort=False, dropna=False)["run"]:
        both = f"{runs.iloc[0]} and {runs.iloc[1]} both have {detector}"
        if not variant:
            raise EvaluationError(
                f"{both}, and nothing says whether they are runs of one training method. Name the methods, as in "
                "VARIANT=FILE, or give the seeds of one in a column seed."
            )
        raise EvaluationError(f"{both} with seed {seed} and the same weights. Leave one out, or name two variants.")
    return figures


def over_runs(figures: pd.DataFrame) -> pd.DataFrame:
    """Compute mean and standard deviation over the runs of each variant, which differ by seed.

    The columns are `variant`, `detector`, those of `FIGURE_KEY` and `factor`, then `runs`, `mean` and `std`: the
    sample standard deviation (of n - 1), NaN for one run; and the numbers of rows of the last one. In the order of
    each figure's first line.
    """
    of = figures.groupby(["variant", "detector", *FIGURE_KEY, "factor"], sort=False, dropna=False)
    value = of["value"]
    numbers = {"runs": of.size(), "mean": value.mean(skipna=False), "std": value.std(skipna=False)}
    return pd.DataFrame(
        numbers | {name: of[name].last() for name in ("n_known", "n_unknown", "left_out")}
    ).reset_index()


def write_figures(path: Path, figures: pd.DataFrame) -> None:
    """Write figures as Parquet or, by the file's name, as CSV; equal figures give equal bytes."""
    if path.suffix == ".csv":
        missing = figures.astype(object).where(figures.notna() | (figures.columns == "value"), None)
        write_text(path, csv_text([[*figures.columns], *missing.itertuples(index=False)]))
        return
    with atomic_path(path) as temporary:
        figures.to_parquet(temporary, index=False, schema=_SCHEMA, compression="zstd")
