"""The protocol of FACETS, Toward a Realistic Benchmark for Out-of-Distribution Detection, tables VI and VII.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from evaluation.errors import EvaluationError
from evaluation.protocols.figures import Figure, measure
from evaluation.scoring.rows import Rows, against, known_rows, mistakes

NAME = "facets"
SETTINGS = {"ood_detection": "OOD detection", "misclassification_detection": "Misclassification detection"}
WITH_PREDICTIONS = ("misclassification_detection",)
METRICS = ("fpr_at_95_tpr_known_positive", "detection_error_known_positive", "auroc")


def figures(rows: Rows) -> list[Figure]:
    """Judge each config by FPR at 95 % TPR, detection error (known rows positive) and AUROC.

    OOD detection holds the unknown rows of `test` against its in-distribution rows. Misclassification detection holds
    those in-distribution rows that are classified wrong against those classified right; rows in distribution by their
    meaning alone, which have no label of the model's, are left out of it.

    Args:
        rows: of one or several configs; other splits are passed over.

    Raises:
        EvaluationError: `test` of a config lacks in-distribution or unknown rows, or no row of it has a label.
    """
    return [figure for config, of_config in rows.by("config").items() for figure in _of_config(config, of_config)]


def _of_config(config: str, rows: Rows) -> list[Figure]:
    known = known_rows(rows, "test")
    unknown = rows.where(~rows.known & (rows.split == "test"))
    if not len(unknown):
        raise EvaluationError(
            f"expected unknown rows in test of {config}, found in-distribution rows alone; score all rows of the "
            "split, or name another protocol."
        )
    named = {"protocol": NAME, "config": config}
    found = measure(
        against(known, unknown),
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
                f"expected labels for in-distribution rows in test of {config}, found none; leave the predictions out."
            )
        found += measure(
            mistakes(labelled),
            METRICS,
            setting="misclassification_detection",
            known="test, right",
            unknown="test, wrong",
            **named,
        )
    return found
