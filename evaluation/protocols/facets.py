"""The protocol of FACETS, Toward a Realistic Benchmark for Out-of-Distribution Detection, tables VI and VII.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from evaluation.errors import EvaluationError
from evaluation.protocols.figures import Figure, measure
from evaluation.scoring.rows import Rows, known_rows, rank_errors, rank_known_unknown

NAME = "facets"
SETTINGS = {"ood_detection": "OOD detection", "misclassification_detection": "Misclassification detection"}
WITH_PREDICTIONS = ("misclassification_detection",)
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
    """Evaluate each config by FPR at 95 % TPR, detection error (known rows positive; both twice) and AUROC.

    OOD detection compares the unknown rows of `test` with its in-distribution rows. Misclassification detection
    compares misclassified in-distribution rows with correctly classified ones; rows that are in-distribution only by
    their meaning, and have no label of the model, are left out.

    Args:
        rows: rows of one or more configs; other splits are ignored.

    Raises:
        EvaluationError: `test` of a config has no in-distribution, no unknown or no labelled rows.
    """
    return [figure for config, of_config in rows.by("config").items() for figure in _of_config(config, of_config)]


def _of_config(config: str, rows: Rows) -> list[Figure]:
    known = known_rows(rows, "test")
    unknown = rows.where(~rows.known & (rows.split == "test"))
    if not len(unknown):
        raise EvaluationError(
            f"test of {config} has in-distribution rows only, no unknown ones. Score all rows of the split, or choose "
            "another protocol."
        )
    named = {"protocol": NAME, "config": config}
    found = measure(
        rank_known_unknown(known, unknown),
        METRICS,
        setting="ood_detection",
        known="test, in-distribution",
        unknown="test, out-of-distribution",
        **named,
    )
    if rows.prediction is not None:
        labelled = known.where(known.label >= 0)
        if not len(labelled):
            raise EvaluationError(
                f"The in-distribution rows in test of {config} have no labels; leave the predictions out."
            )
        found += measure(
            rank_errors(labelled),
            METRICS,
            setting="misclassification_detection",
            known="test, right",
            unknown="test, wrong",
            **named,
        )
    return found
