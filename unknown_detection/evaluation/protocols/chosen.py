"""Measures metrics that the user chooses, comparing each split of unknown rows with the known rows.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from builders.release.schema import ROLES
from unknown_detection.evaluation.frame import TEST, known_rows, names
from unknown_detection.evaluation.metrics.metrics import Metric
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, Shown, measure_roles
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS

NAME = "metrics"


def protocol_of(metrics: Sequence[Metric]) -> Protocol:
    """Return the protocol of `report(metrics=...)`, which averages over the splits of each role."""

    def judge(rows: pd.DataFrame) -> list[Figure]:
        unknown = rows[~rows["known"] & ~rows["split"].isin(FIT_AND_TUNE_SPLITS)]
        roles, measured = sorted(names(unknown, "role"), key=ROLES.index), [metric.name for metric in metrics]
        named = {"setting": NAME, "known": TEST}
        return measure_roles(unknown, known_rows(rows), roles, measured, **named) if roles else []

    return Protocol(
        name=NAME,
        title="Chosen metrics",
        paper="",
        settings={NAME: "Chosen metrics"},
        judge=judge,
        shows=tuple(
            Shown("{set} mean", {"statistic": "mean", "metric": metric.name.replace("|", ".")}) for metric in metrics
        ),
        plots=(),
    )
