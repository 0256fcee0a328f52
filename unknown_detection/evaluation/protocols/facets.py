"""The protocol of FACETS, Toward a Realistic Benchmark for Out-of-Distribution Detection, tables VI and VII.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pandas as pd

from unknown_detection.evaluation.display.tables import ResultTable, metric_name
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.protocols import pictures
from unknown_detection.evaluation.protocols.protocol import Protocol, Shown, by_detector
from unknown_detection.evaluation.protocols.results import Figure, Line, measure
from unknown_detection.evaluation.scoring.rows import Rows

NAME = "facets"
METRICS = (
    "interpolated_fpr_at_95_tpr_known_positive",
    "least_detection_error_at_95_tpr_known_positive",
    "auroc",
    "fpr_at_95_tpr_known_positive",
    "detection_error_known_positive",
)
"""Those of the paper's tables, in their order, then those that the paper's text defines. In the tables, the detection
error of OODL on Baseline, 1.61 at an FPR of 0.37, is below 0.5 (1 - 0.95) + 0.5 FPR, and so are eight others."""

IN_TABLES = METRICS[:3]


def figures(rows: Rows) -> list[Figure]:
    """Evaluate a config by FPR at 95 % TPR, detection error (known rows positive; both twice) and AUROC.

    OOD detection compares the unknown rows of `test` with its in-distribution rows. Misclassification detection
    compares misclassified in-distribution rows with correctly classified ones; rows that are in-distribution only by
    their meaning, and have no label of the model, are left out.
    """
    known, unknown = rows.known_rows("test"), rows.where(~rows.known & (rows.split == "test"))
    config = str(rows.config[0])
    if not len(unknown):
        raise EvaluationError(
            f"test of {config} has in-distribution rows only, no unknown ones. Score all rows of the split, or choose "
            "another protocol."
        )
    named = {"protocol": NAME, "config": config, "setting": "ood_detection"}
    named |= {"known": "test, in-distribution", "unknown": "test, out-of-distribution"}
    measured = measure(known.against(unknown), METRICS, **named)
    if rows.prediction is None:
        return measured
    labelled = known.where(known.label >= 0)
    if not len(labelled):
        raise EvaluationError(
            f"The in-distribution rows in test of {config} have no labels; leave the predictions out."
        )
    named |= {"setting": "misclassification_detection", "known": "test, right", "unknown": "test, wrong"}
    return measured + measure(labelled.by_errors(), METRICS, **named)


def tables(lines: pd.DataFrame) -> Iterator[ResultTable]:
    """Lay out tables VI and VII: three metrics on each config."""
    note = (
        "In percent; known rows are positive; FPR is interpolated at 95 % TPR, and the detection error is the least "
        "at 95 % TPR or more, as in the paper's tables."
    )
    for setting, group in lines[lines["metric"].isin(IN_TABLES)].groupby("setting", sort=False):
        title = f"{PROTOCOL.title}: {PROTOCOL.settings[setting]}"
        by_metric = group.sort_values("metric", key=lambda names: -names.map(IN_TABLES.index), kind="stable")
        yield by_detector((NAME, setting), title, note, by_metric, _titled)


def _titled(line: Line) -> tuple[str, str]:
    return metric_name(line["metric"]), line["config"]


PROTOCOL = Protocol(
    name=NAME,
    title="FACETS",
    paper="Toward a Realistic Benchmark for Out-of-Distribution Detection",
    settings={"ood_detection": "OOD detection", "misclassification_detection": "Misclassification detection"},
    with_predictions=("misclassification_detection",),
    judge=figures,
    summary=(
        Shown("", {"setting": "ood_detection", "metric": "auroc"}),
        Shown("", {"setting": "ood_detection", "metric": "interpolated_fpr_.*"}),
    ),
    tables=tables,
    pictures=(
        pictures.changes,
        partial(pictures.heatmap, setting="ood_detection", across="config"),
        *(pictures.roc_curves, pictures.risk_coverage_curves, pictures.densities),
    ),
    drawn=lambda rows: rows.split == "test",
)
