"""The tidy table of all figures of a report: one line per number."""

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

_NUMBERS = dict.fromkeys(("value", "factor"), pa.float64())
_NUMBERS |= dict.fromkeys(("seed", "n_known", "n_unknown", "left_out"), pa.int64())

COLUMNS = (
    *("release", "release_digest", "duplicates_sha256", "model", "model_digest", "variant", "run", "seed", "detector"),
    *("hyperparameters", *FIGURE_KEY, "value", "factor", "n_known", "n_unknown", "left_out", "prepared", "versions"),
)
"""The columns in order; `docs/evaluating.md` says what they are."""

_SCHEMA = pa.schema([(name, _NUMBERS.get(name, pa.string())) for name in COLUMNS])


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
