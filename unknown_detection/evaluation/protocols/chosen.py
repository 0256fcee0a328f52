"""Metrics that a user chooses, of each split of unknown rows against the known ones: `report(metrics=...)`.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.frame import TEST, by, known_rows, names, rankings
from unknown_detection.evaluation.metrics.metrics import Metric
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, Shown, means, measure
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS

NAME = "metrics"


def protocol_of(metrics: Sequence[Metric]) -> Protocol:
    """Return the protocol that measures some metrics; its means are over the splits of a role."""

    def judge(rows: pd.DataFrame) -> list[Figure]:
        known, measured = known_rows(rows), []
        unknown = rows[~rows["known"] & ~rows["split"].isin(FIT_AND_TUNE_SPLITS)]
        if not len(unknown):
            raise EvaluationError(f"{' and '.join(names(rows, 'config'))} has no unknown rows. Score a split of them.")
        for role, of_role in by(unknown, "role").items():
            figures: list[Figure] = []
            for split, of_split in by(of_role, "split").items():
                ranked = rankings(known, of_split)
                for metric in metrics:
                    if metric.takes in ranked:
                        named = {"setting": NAME, "known": TEST, "unknown": split}
                        figures += measure(ranked[metric.takes], [metric.name], **named)
            measured += figures + means(figures, unknown=role)
        return measured

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
