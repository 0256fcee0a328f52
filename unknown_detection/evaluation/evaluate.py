"""The figures of scores as one table of pandas: a line for each detector and split of unknown rows.

Tested by `tests/evaluation/test_steps.py`.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from unknown_detection.evaluation import frame
from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.metrics.bootstrap import resampled, row_counts
from unknown_detection.evaluation.metrics.metrics import Metric, find_metric
from unknown_detection.evaluation.releases import Release, load
from unknown_detection.evaluation.runs import ScoredRun, join_runs
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS

COLUMNS: Mapping[str, str] = {
    "AUROC": "auroc",
    "FPR95": "fpr_at_95_tpr_known_positive",
    "AUPR_IN": "aupr_in_average_precision",
    "AUPR_OUT": "aupr_out_average_precision",
}
"""The usual metrics by their columns. Of the two that are called FPR@95, it is that of the ODIN paper and of most
others."""

MEAN = "mean"
"""Stands for the split in lines with the mean over the splits of a role."""

QUANTILES = (0.025, 0.975)
"""Ends of the intervals: the percentile bootstrap's 95 %."""


def evaluate(
    scores: Any,
    release: str | Path | Release,
    splits: str | Iterable[str] | None = None,
    metrics: str | Callable[..., float] | Sequence[str | Callable[..., float]] | None = None,
    intervals: int = 0,
) -> pd.DataFrame:
    """Compute how well scores tell each split of unknown rows from the known ones.

        >>> figures = ud.evaluate(scores, "build/digits")
        >>> figures.columns[:6].tolist()
        ['detector', 'config', 'split', 'role', 'AUROC', 'FPR95']

    The known rows are the in-distribution rows of the config's split `test`; where it has none, as in BROAD's configs
    of shifts, those of all scored configs. Every row counts, duplicates too: `report` has the papers' figures, with
    and without them.

    Args:
        scores: what `score` returned, another table or a pandas DataFrame with the columns `id` and `score` (higher =
            more unknown; optional `detector`), a dictionary or a Series of id to score, or a Parquet or CSV file; or a
            list of several, such as those of several models.
        release: the release whose rows were scored: a folder, ORG/NAME on the Hub, or an opened one.
        splits: what to evaluate, as `CONFIG[/SPLIT],...` or several such texts; None for all splits that `score`
            scored, or that the ids of other scores are of.
        metrics: one or several: names (`AUROC`, or those of all metrics, such as `auroc` and `oscr`), or functions
            decorated with `ud.metric`; None for the four usual ones. For metrics of errors, every unknown row is one.
        intervals: number of bootstrap samples, such as 1000, for 95 % intervals; 0 for none. Rows are drawn within
            splits, the same ones for every detector and every call.

    Returns:
        A line for each run, detector, and split and role of unknown rows, and, where a role has several splits, one
        with their `mean` as the split. The columns are `detector`, `config`, `split`, `role`; `AUROC`, `FPR95` (the
        share of unknown rows that are taken for known ones, where 95 % of the known ones are), `AUPR_IN` and
        `AUPR_OUT` (average precision, known or unknown rows positive), all from 0 to 1, or the metrics asked for, each
        with `_low` and `_high` if there are intervals; `n_known` and `n_unknown`, the numbers of rows; and `run`,
        `model` and `seed`. `attrs` has the name and digest of the release.

    Raises:
        EvaluationError: scores are of another release, ids are missing, unknown or repeated, there are no known or
            no unknown rows among them, or no predictions for a metric that needs them.
        TypeError: the scores, the release or a metric are something else.
    """
    asked = [*COLUMNS] if metrics is None else [metrics] if isinstance(metrics, str) or callable(metrics) else metrics
    chosen = dict(_named(metric) for metric in asked)
    opened = load(release)
    runs, configs = join_runs(scores, opened, splits)
    require_known("config with scores", configs, {config for run in runs for config in run.about.configs})
    lines = [
        {**line, "run": run.name, "model": run.about.model, "seed": run.about.seed}
        for run in runs
        for line in _lines(run, chosen, intervals)
        if not configs or line["config"] in configs
    ]
    if not lines:
        raise EvaluationError("There are no scores of unknown rows. Score a split of them, too.")
    figures = pd.DataFrame(lines).astype({"seed": "Int64"})
    figures.attrs = {"release": opened.name, "release_digest": opened.digest}
    return figures


def _named(metric: str | Callable[..., float]) -> tuple[str, Metric]:
    """Return a metric by the name of its column."""
    found = find_metric(COLUMNS.get(metric, metric) if isinstance(metric, str) else metric)
    if found.takes == "rejected":
        raise EvaluationError(f"{found.name} is of decisions, not of scores. Choose another metric.")
    usual = {name: column for column, name in COLUMNS.items()}
    return usual.get(found.name, found.name), found


_Side = tuple[str, str, str, pd.DataFrame, pd.DataFrame]


def _sides(rows: pd.DataFrame) -> Iterator[_Side]:
    """Yield config, split, role, known and unknown rows of each split to evaluate of a joined frame."""
    for config, of_config in frame.by(rows, "config").items():
        known = of_config[of_config["known"] & (of_config["split"] == frame.TEST)]
        for split, of_split in frame.by(of_config[~of_config["known"]], "split").items():
            if split not in FIT_AND_TUNE_SPLITS:
                for role, unknown in frame.by(of_split, "role").items():
                    yield config, split, role, known if len(known) else frame.known_rows(rows), unknown


def _lines(run: ScoredRun, metrics: Mapping[str, Metric], intervals: int) -> list[dict[str, Any]]:
    counts = functools.cache(partial(row_counts, samples=intervals))

    def judge(side: tuple[str, _Side]) -> tuple[dict[str, float], dict[str, npt.NDArray[np.float64]]]:
        """Return the metrics of a detector on a split, and those of each bootstrap sample."""
        detector, (config, split, role, known, unknown) = side
        rankings = frame.rankings(known, unknown, takes={metric.takes for metric in metrics.values()})
        lacking = [name for name, metric in metrics.items() if metric.takes not in rankings]
        if lacking:
            raise EvaluationError(
                f"{', '.join(lacking)} needs predictions, and the scores of {detector} have none. Add a column "
                "prediction, or choose another metric."
            )
        values = {name: metric.of(rankings[metric.takes]) for name, metric in metrics.items()}
        if not intervals:
            return values, {}
        drawn = counts(len(known), name=f"known of {config}"), counts(len(unknown), name=f"{config}/{split}/{role}")
        errors = known["wrong"].to_numpy() if "wrong" in known else None
        scores = known["score"].to_numpy(), unknown["score"].to_numpy()
        return values, resampled(*scores, errors, drawn, metrics)

    tasks = [(detector, side) for detector, rows in run.rows.items() for side in _sides(rows)]
    # NumPy sorts and adds without the interpreter's lock.
    with ThreadPoolExecutor(os.cpu_count() if intervals else 1) as threads:
        judged = [*zip(tasks, threads.map(judge, tasks), strict=True)]
    lines = []
    for (detector, config), of_config in itertools.groupby(judged, key=lambda of: (of[0][0], of[0][1][0])):
        roles = defaultdict(list)
        for (_, (_, split, role, known, unknown)), (values, samples) in of_config:
            roles[role].append((len(known), len(unknown), values, samples))
            named = {"detector": detector, "config": config, "split": split, "role": role}
            lines.append(named | _columns(values, samples) | {"n_known": len(known), "n_unknown": len(unknown)})
        for role, of_role in roles.items():
            if len(of_role) > 1:
                mean = {name: float(np.mean([values[name] for *_, values, _ in of_role])) for name in metrics}
                drawn = {
                    name: np.mean([samples[name] for *_, samples in of_role], axis=0) for name in metrics if intervals
                }
                counted = {"n_known": of_role[0][0], "n_unknown": sum(unknown for _, unknown, *_ in of_role)}
                named = {"detector": detector, "config": config, "split": MEAN, "role": role}
                lines.append(named | _columns(mean, drawn) | counted)
    return lines


def _columns(values: Mapping[str, float], samples: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
    """Return the columns of metrics, each followed by its interval, if there are samples."""
    columns: dict[str, float] = {}
    for name, value in values.items():
        columns[name] = value
        if name in samples:
            ends = np.quantile(samples[name], QUANTILES).tolist()
            columns |= dict(zip((f"{name}_low", f"{name}_high"), ends, strict=True))
    return columns
