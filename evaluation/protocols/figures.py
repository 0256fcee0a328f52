"""A figure: one number of a protocol, with the fields that identify it.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.metrics.metrics import METRICS
from evaluation.metrics.ranking import Ranking

AS_PUBLISHED = "as_published"
WITHOUT_DUPLICATES = "without_duplicates"
WITHOUT_OVERLAP = "without_overlap"


@dataclass(frozen=True)
class Figure:
    """One number. All fields except the last five identify it among the figures of a detector and run.

    Attributes:
        protocol: name of the protocol, such as `facets`.
        config: config of the release; several are joined by ` + `.
        setting: the detector's task, such as `ood_detection`, `dsd` or `od_test`.
        known: the known rows: a split, and which of its rows if not all.
        unknown: the unknown rows; several splits are joined by ` + `. For a statistic, the sets it is over.
        metric: a key of `METRICS`.
        positive: the metric's positive class, `known` or `unknown`; empty if it makes no difference.
        rows: `as_published`, or `without_duplicates`: without rows that duplicate another row or share their source
            image with a duplicate (`duplicates`); or `without_overlap`: without unknown rows whose class overlaps a
            known one (`overlap`).
        statistic: empty for a figure of rows; `mean`, `median` and so on for a statistic of other figures.
        fitted_on: the OoD set that a threshold was fitted on, or empty.
        value: the number, a rate or an area from 0 to 1. NaN if the model's predictions leave one class without rows.
        factor: the factor by which the paper multiplies it.
        n_known: number of known rows; for a statistic, summed over its figures.
        n_unknown: number of unknown rows, likewise.
        left_out: number of rows fewer than in the same figure as published, known and unknown together.
    """

    protocol: str
    config: str
    setting: str
    known: str
    unknown: str
    metric: str
    positive: str
    rows: str
    statistic: str
    fitted_on: str
    value: float
    factor: float
    n_known: int
    n_unknown: int
    left_out: int = 0

    @property
    def reported(self) -> float:
        """The value as the paper prints it."""
        return self.value * self.factor


def measure(
    ranking: Ranking,
    metrics: Iterable[str],
    *,
    protocol: str,
    config: str,
    setting: str,
    known: str,
    unknown: str,
    fitted_on: str = "",
) -> list[Figure]:
    """Compute metrics from a ranking.

    Args:
        ranking: the ranking. Only a model's predictions may leave one class without rows: metrics that need both are
            NaN then.
        metrics: keys of `METRICS`.
        protocol: as in `Figure`.
        config: as in `Figure`.
        setting: as in `Figure`.
        known: as in `Figure`.
        unknown: as in `Figure`.
        fitted_on: as in `Figure`.

    Returns:
        One figure per metric, with `rows` as published.
    """
    n_known, n_unknown = int(ranking.known[-1]) + ranking.missed, int(ranking.unknown[-1])
    figures = []
    for name in metrics:
        metric = METRICS[name]
        defined = metric.takes == "errors" or (n_known and n_unknown)
        figures.append(
            Figure(
                protocol=protocol,
                config=config,
                setting=setting,
                known=known,
                unknown=unknown,
                metric=name,
                positive=metric.positive,
                rows=AS_PUBLISHED,
                statistic="",
                fitted_on=fitted_on,
                value=metric.of(ranking) if defined else float("nan"),
                factor=metric.factor,
                n_known=n_known,
                n_unknown=n_unknown,
            )
        )
    return figures


def means(figures: Sequence[Figure], *, unknown: str | None = None, config: str | None = None) -> list[Figure]:
    """Return the unweighted mean of figures for each metric; NaN if one of them is.

    Args:
        figures: figures that differ only in the rows they are computed on.
        unknown: the sets that the means are over; None joins the figures' own.
        config: config of the means if the figures have several; None uses the first figure's.
    """
    return [
        replace(
            of_metric[0],
            config=config or of_metric[0].config,
            unknown=unknown or " + ".join(figure.unknown for figure in of_metric),
            statistic="mean",
            value=float(np.mean([figure.value for figure in of_metric])),
            n_known=sum(figure.n_known for figure in of_metric),
            n_unknown=sum(figure.n_unknown for figure in of_metric),
        )
        for of_metric in _by_metric(figures)
    ]


def _by_metric(figures: Iterable[Figure]) -> Iterable[list[Figure]]:
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure.metric, []).append(figure)
    return groups.values()
