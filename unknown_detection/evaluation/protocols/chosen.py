"""Measures metrics that the user chooses, comparing each split of unknown rows with the known rows.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from builders.release.schema import ROLES
from unknown_detection.evaluation.frame import TEST, each_config, names
from unknown_detection.evaluation.metrics.metrics import Metric
from unknown_detection.evaluation.protocols.protocol import CHOSEN, Figure, Protocol, Shown, measure_roles


def protocol_of(metrics: Sequence[Metric]) -> Protocol:
    """Return the protocol of `report(metrics=...)`, which averages over the splits of each role."""

    def judge(rows: pd.DataFrame) -> list[Figure]:
        measured: list[Figure] = []
        for config, known, unknown in each_config(rows):
            named = {"config": config, "setting": CHOSEN, "known": TEST}
            roles = sorted(names(unknown, "role"), key=ROLES.index)
            measured += measure_roles(unknown, known, roles, [metric.name for metric in metrics], **named)
        return measured

    return Protocol(
        name=CHOSEN,
        title="Chosen metrics",
        paper="",
        settings={CHOSEN: "Chosen metrics"},
        judge=judge,
        shows=tuple(
            Shown("{set} mean", {"statistic": "mean", "metric": metric.name.replace("|", ".")}) for metric in metrics
        ),
        plots=(),
        each_config=False,
    )
