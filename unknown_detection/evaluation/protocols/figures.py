"""Computes figures, the numbers of a protocol, from rankings and other figures.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unknown_detection.evaluation.metrics.metrics import METRICS
from unknown_detection.evaluation.metrics.ranking import Ranking

AS_PUBLISHED = "as_published"
WITHOUT_DUPLICATES = "without_duplicates"
WITHOUT_OVERLAP = "without_overlap"


@dataclass(frozen=True)
class Figure:
    """One number; `results.COLUMNS` describes the fields.

    All fields except the last five identify it among the figures of a detector and run.
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
    def name(self) -> Figure:
        """The figure with only the fields that identify it, the others blank."""
        return replace(self, value=0.0, n_known=0, n_unknown=0, left_out=0)


def measure(ranking: Ranking, metrics: Iterable[str], **named: str) -> list[Figure]:
    """Compute metrics, keys of `METRICS`, from a ranking; those that need both classes are NaN where one has no rows.

    `named` has the other fields that identify the figures; those that are left out are empty, and `rows` as published.
    """
    known, unknown = int(ranking.known[-1]) + ranking.missed, int(ranking.unknown[-1])
    fields = {"rows": AS_PUBLISHED, "statistic": "", "fitted_on": "", **named}
    measured = []
    for name in metrics:
        metric = METRICS[name]
        value = metric.of(ranking) if metric.takes == "errors" or (known and unknown) else float("nan")
        numbers = {"value": value, "factor": metric.factor, "n_known": known, "n_unknown": unknown}
        measured.append(Figure(metric=name, positive=metric.positive, **fields, **numbers))  # type: ignore[arg-type]
    return measured


def means(figures: Sequence[Figure], *, unknown: str | None = None, config: str | None = None) -> list[Figure]:
    """Return the unweighted mean, for each metric, of figures on different rows; NaN if one of them is.

    `unknown` names the sets that the means are over, `config` the configs; by default the figures' own sets, joined,
    and the first figure's config.
    """
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure.metric, []).append(figure)
    return [
        replace(
            summed(group),
            config=config or group[0].config,
            unknown=unknown or " + ".join(figure.unknown for figure in group),
            statistic="mean",
            value=float(np.mean([figure.value for figure in group])),
        )
        for group in groups.values()
    ]


def summed(figures: Sequence[Figure]) -> Figure:
    """Return the first figure with the numbers of rows of all of them."""
    known, unknown = (sum(getattr(figure, name) for figure in figures) for name in ("n_known", "n_unknown"))
    return replace(figures[0], n_known=known, n_unknown=unknown)
