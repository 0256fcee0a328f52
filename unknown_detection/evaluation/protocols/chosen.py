"""Measures metrics that the user chooses, comparing each split of unknown rows with the known rows.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from builders.release.schema import ROLES
from unknown_detection.evaluation.frame import TEST, by_errors, each_config, names
from unknown_detection.evaluation.metrics.metrics import Metric
from unknown_detection.evaluation.protocols.protocol import CHOSEN, Figure, Protocol, Shown, measure, measure_roles


def protocol_of(metrics: Sequence[Metric]) -> Protocol:
    """Return the protocol of `report(metrics=...)`, which averages over the splits of each role.

    Metrics of known rows alone, such as accuracy, are measured once for each config.
    """
    of_known = [metric.name for metric in metrics if metric.takes == "misclassified"]
    others = [metric.name for metric in metrics if metric.name not in of_known]

    def judge(rows: pd.DataFrame) -> list[Figure]:
        measured: list[Figure] = []
        for config, known, unknown in each_config(rows):
            named = {"config": config, "setting": CHOSEN}
            roles = sorted(names(unknown, "role"), key=ROLES.index)
            measured += measure_roles(unknown, known, roles, others, **named, known=TEST)
            if "wrong" in known:
                sides = {"known": f"{TEST}, right", "unknown": f"{TEST}, wrong"}
                measured += measure(by_errors(known), of_known, **named, **sides)
        return measured

    return Protocol(
        name=CHOSEN,
        title="Chosen metrics",
        paper="",
        settings={CHOSEN: "Chosen metrics"},
        judge=judge,
        shows=(
            *(Shown("{set} mean", {"statistic": "mean", "metric": name}) for name in others),
            *(Shown("", {"metric": name}) for name in of_known),
        ),
        plots=(),
        each_config=False,
    )
