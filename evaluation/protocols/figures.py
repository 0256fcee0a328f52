"""A figure: one number of a protocol, with all that says what it is a number of.

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


@dataclass(frozen=True)
class Figure:
    """One number. All fields but the last five name it: no two figures of a detector and a run share them.

    Attributes:
        protocol: such as `facets`.
        config: the release's config; several are joined by ` + `.
        setting: what is asked of the detector, such as `ood_detection`, `dsd` or `od_test`.
        known: the rows that ought to be accepted: a split, and which of its rows where not all.
        unknown: those that ought to be refused; several splits are joined by ` + `. For a statistic, what it is over.
        metric: a name of `METRICS`.
        positive: the side that the metric counts as positive, `known` or `unknown`; empty where it does not matter.
        rows: `as_published`, or `without_duplicates`: without rows that show the same picture as another row, and
            what goes with them (`duplicates`).
        statistic: empty for a number of rows; `mean`, `median` and so on for one of other figures.
        fitted_on: the unknowns that a threshold was fitted on, or empty.
        value: in its own unit, a rate or an area from 0 to 1. NaN where the model leaves one side without rows.
        factor: what the paper multiplies it by before it prints it.
        n_known: how many rows ought to be accepted; for a statistic, summed over its figures.
        n_unknown: how many ought to be refused, likewise.
        left_out: how many rows it lacks of those of the same figure as published, on both sides together.
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
    """Read metrics off a ranking.

    Args:
        ranking: of the rows in question. Only a model's predictions may leave one of its sides empty: what needs both
            sides is then NaN.
        metrics: names of `METRICS`.
        protocol: as in `Figure`, like all that follow.
        config: see there.
        setting: see there.
        known: see there.
        unknown: see there.
        fitted_on: see there.

    Returns:
        A figure for each metric, of rows as published.
    """
    n_known, n_unknown = int(ranking.known[-1]), int(ranking.unknown[-1])
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
    """The plain mean of figures, for each metric among them; NaN if one of them is.

    Args:
        figures: alike but for what they are of.
        unknown: what the means are over; None joins the figures' own.
        config: where the figures are of several; None takes the first one's.
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
