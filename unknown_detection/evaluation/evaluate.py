"""Computes the figures of scores as one pandas table: a line for each detector and split of unknown rows.

Tested by `tests/evaluation/test_steps.py`.
"""

from __future__ import annotations

import functools
import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unknown_detection.evaluation import frame
from unknown_detection.evaluation.errors import EvaluationError, EvaluationWarning, require_known
from unknown_detection.evaluation.metrics.bootstrap import require_samples, resampled, row_counts
from unknown_detection.evaluation.metrics.metrics import USUAL, Floats, Metric, find_metrics
from unknown_detection.evaluation.releases import Release, load
from unknown_detection.evaluation.runs import ScoredRun, join_runs, unequal_sets
from unknown_detection.words import first_few

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
    against: str | None = None,
) -> pd.DataFrame:
    """Compute how well scores tell each split of unknown rows from the known ones.

        >>> figures = ud.evaluate(scores, "build/digits")
        >>> figures.columns[:6].tolist()
        ['detector', 'config', 'split', 'role', 'AUROC', 'FPR95']

    The known rows are the in-distribution rows of the config's split `test`; where it has none, those of the scored
    config whose name it extends (`NAME-shifted`), else, as for BROAD's configs of shifts, those of all scored configs.
    Every row counts, duplicates too: `report` has the papers' figures, with and without them.

    Args:
        scores: what `score` returned, another table or a DataFrame of pandas or polars with the columns `id` and
            `score` (higher = more unknown; optional `detector`), a dictionary or a Series of id to score, or a Parquet
            or CSV file; or a list of several, such as those of several models.
        release: the release whose rows were scored: a folder, ORG/NAME on the Hub, or an opened one.
        splits: what to evaluate, as `CONFIG[/SPLIT],...` or several such texts; None for all splits that `score`
            scored, or that the ids of other scores are of.
        metrics: one or several: names (`AUROC`, or those of all metrics, such as `auroc` and `oscr`), functions
            decorated with `ud.metric`, or `FILE.py:NAME` for one in a file; None for the four usual ones. For metrics
            of errors, such as `aurc`, every unknown row is one; `accuracy` is that of the known rows alone.
        intervals: number of bootstrap samples, such as 1000 and at least 100, for 95 % intervals; 0 for none. Rows are
            drawn within splits, the same ones for every detector and every call.
        against: a detector with which each one of the same scores is compared: there are then also columns such as
            `AUROC_difference`, with intervals of the difference on the same drawn rows (a paired bootstrap). None for
            none.

    Returns:
        A line for each run, detector, and split and role of unknown rows, and, where a role has several splits, one
        with their `mean` as the split. The columns are `detector`, `config`, `split`, `role`; `AUROC`, `FPR95` (the
        share of unknown rows that are taken for known ones, where 95 % of the known ones are), `AUPR_IN` and
        `AUPR_OUT` (average precision, known or unknown rows positive), all from 0 to 1, or the metrics asked for, each
        with `_low` and `_high` if there are intervals; `n_known` and `n_unknown`, the numbers of rows; and `run`,
        `model` and `seed`. `attrs` has the name and digest of the release.

    Raises:
        EvaluationError: scores are of another release, ids are missing, unknown or repeated, there are no known or
            no unknown rows among them, no predictions for a metric that needs them, none of the detector to compare
            with, or too few samples.
        TypeError: the scores, the release or a metric are something else.
    """
    require_samples(intervals)
    columns = {name: column for column, name in USUAL.items()}
    chosen = {columns.get(of.name, of.name): of for of in find_metrics([*USUAL] if metrics is None else metrics)}
    if not chosen:
        raise EvaluationError("No metric is named. Name some, or leave metrics= out for the usual ones.")
    opened = load(release)
    runs, configs = join_runs(scores, opened, splits)
    for sentence in unequal_sets(runs):
        warnings.warn(sentence, EvaluationWarning, stacklevel=2)
    require_known("config with scores", configs, {config for run in runs for config in run.about.configs})
    if against:
        require_known("detector with scores", [against], {name for run in runs for name in run.rows})
        if without := [run.name for run in runs if against not in run.rows]:
            raise EvaluationError(
                f"{first_few(without)} {'has' if len(without) == 1 else 'have'} no scores of {against}, with which "
                "detectors of the same scores are compared. Put them into one table with those, or leave against= out."
            )
    lines = [
        {**line, "run": run.name, "model": run.about.model, "seed": run.about.seed}
        for run in runs
        for line in lines_of(run, chosen, intervals, against)
        if not configs or line["config"] in configs
    ]
    if not lines:
        raise EvaluationError("There are no scores of unknown rows. Score a split of them, too.")
    figures = pd.DataFrame(lines).astype({"seed": "Int64"})
    figures.attrs = {"release": opened.name, "release_digest": opened.digest}
    return figures


def lines_of(
    run: ScoredRun, metrics: Mapping[str, Metric], intervals: int, against: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run: of each detector and config the splits, then the means of roles."""
    counts = functools.cache(partial(row_counts, samples=intervals))

    def judge(side: tuple[tuple[str, str, str, str], pd.DataFrame, pd.DataFrame]) -> Floats:
        """Return each metric, followed by those of the bootstrap samples; shape (metrics, 1 + samples)."""
        (detector, config, split, role), known, unknown = side
        rankings = frame.rankings(known, unknown, takes={metric.takes for metric in metrics.values()})
        lacking = [name for name, metric in metrics.items() if metric.takes not in rankings]
        if lacking:
            raise EvaluationError(
                f"{', '.join(lacking)} needs predictions, and the scores of {detector} have none. Add a column "
                "prediction, or choose another metric."
            )
        values = np.array([[metric.value(rankings[metric.takes])] for metric in metrics.values()])
        if not intervals:
            return values
        drawn = counts(len(known), name=f"known of {config}"), counts(len(unknown), name=f"{config}/{split}/{role}")
        errors = known["wrong"].to_numpy() if "wrong" in known else None
        labelled = None if known["label"].ge(0).all() else known["label"].ge(0).to_numpy()
        scores = known["score"].to_numpy(), unknown["score"].to_numpy()
        samples = resampled(*scores, errors, drawn, metrics, labelled)
        return np.append(values, [samples[name] for name in metrics], axis=1)

    sides = [
        ((detector, config, split, role), known, unknown)
        for detector, rows in run.rows.items()
        for config, known, of_config in frame.each_config(rows)
        for split, of_split in frame.by(of_config, "split").items()
        for role, unknown in frame.by(of_split, "role").items()
    ]
    # NumPy sorts and adds without the interpreter's lock.
    with ThreadPoolExecutor(os.cpu_count() if intervals else 1) as threads:
        measured = [*threads.map(judge, sides)]
    judged = [(side, of, len(known), len(unknown)) for (side, known, unknown), of in zip(sides, measured, strict=True)]
    lines = []
    for place, grouped in itertools.groupby(judged, key=lambda line: line[0][:2]):
        lines += (of_config := [*grouped])
        for role in dict.fromkeys(side[3] for side, *_ in of_config):
            _, *of_role = zip(*(line for line in of_config if line[0][3] == role), strict=True)
            if len(of_role[0]) > 1:
                mean = np.mean(of_role[0], axis=0)
                lines.append(((*place, MEAN, role), mean, of_role[1][0], sum(of_role[2])))
    others = {side[1:]: values for side, values, *_ in lines if side[0] == against}
    for side, values, n_known, n_unknown in lines:
        line = dict[str, Any](zip(("detector", "config", "split", "role"), side, strict=True))
        for number, name in enumerate(metrics):
            line |= _with_interval(name, values[number])
            if side[1:] in others:
                line |= _with_interval(f"{name}_difference", values[number] - others[side[1:]][number])
        yield line | {"n_known": n_known, "n_unknown": n_unknown}


def _with_interval(name: str, values: Floats) -> dict[str, Any]:
    """Return the columns of a value, which comes first, and of its interval, if samples follow."""
    value, *samples = values
    ends = zip(("low", "high"), np.quantile(samples, QUANTILES) if samples else (), strict=False)
    return {name: value} | {f"{name}_{end}": at for end, at in ends}
