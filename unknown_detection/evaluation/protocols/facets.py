"""The protocol of FACETS, Toward a Realistic Benchmark for Out-of-Distribution Detection, tables VI and VII.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

import pandas as pd

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.frame import TEST, against, by_errors, known_rows, names
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, Shown, measure

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


def figures(rows: pd.DataFrame) -> list[Figure]:
    """Evaluate a config by AUROC, and twice by FPR at 95 % TPR and detection error with the known rows positive.

    OOD detection compares the unknown rows of `test` with its in-distribution rows. Misclassification detection
    compares misclassified in-distribution rows with correctly classified ones; rows that are in-distribution only by
    their meaning, and have no label of the model, are left out.
    """
    known, unknown = known_rows(rows), rows[~rows["known"] & (rows["split"] == TEST)]
    (config,) = names(rows, "config")
    if not len(unknown):
        raise EvaluationError(
            f"test of {config} has in-distribution rows only, no unknown ones. Score all rows of the split, or choose "
            "another protocol."
        )
    named = {"known": "test, in-distribution", "unknown": "test, out-of-distribution"}
    measured = measure(against(known, unknown), METRICS, **named, setting="ood_detection")
    if "wrong" in rows and len(mistakes := by_errors(known)):
        named = {"known": "test, right", "unknown": "test, wrong", "setting": "misclassification_detection"}
        measured += measure(mistakes, METRICS, **named)
    return measured


PROTOCOL = Protocol(
    name=NAME,
    title="FACETS",
    paper="Recalcati et al., Toward a Realistic Benchmark for Out-of-Distribution Detection (2023)",
    settings={"ood_detection": "OOD detection", "misclassification_detection": "Misclassification detection"},
    judge=figures,
    shows=(
        Shown("", {"setting": "ood_detection", "metric": "auroc"}),
        Shown("", {"setting": "ood_detection", "metric": "interpolated_fpr_.*"}),
    ),
    tables_by=("setting",),
    tabulated={"metric": "|".join(IN_TABLES)},
    note="Tables VI and VII of the paper. Known rows are positive; FPR is interpolated at 95 % TPR, and the detection "
    "error is the least at 95 % TPR or more, as there.",
    plots=("roc", "risk_coverage", "densities", "heatmap"),
)
