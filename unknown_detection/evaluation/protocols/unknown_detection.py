"""The protocol of the unified benchmark: one figure over all unknowns, and one for each kind.

Kim, Koo and Hwang, A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks (2023), section 4.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

import numpy as np

from unknown_detection.evaluation.metrics.ranking import rank
from unknown_detection.evaluation.protocols.figures import Figure, Protocol, means, measure
from unknown_detection.evaluation.scoring.rows import Rows, known_rows, rank_errors, rank_known_unknown, unknown_splits

NAME = "unknown-detection"


def figures(rows: Rows) -> list[Figure]:
    """Evaluate a config.

    Unknown detection: AURC over the in-distribution rows of `test` and all near-OoD and far-OoD rows, each of which
    counts as an error. Misclassification detection: AURC and E-AURC over the in-distribution rows of `test`, and their
    accuracy. OoD detection: FPR at 95 % TPR, known rows positive, and AUROC for each OoD split, and the means over
    far-OoD splits.

    Args:
        rows: rows of one config; splits for fitting and tuning are ignored.

    Raises:
        EvaluationError: there are no in-distribution rows in `test`, or no near-OoD or far-OoD rows.
    """
    known = known_rows(rows, "test")
    unknown = unknown_splits(rows, ("near_ood", "far_ood"))
    named = {"protocol": NAME, "config": str(rows.config[0])}
    found: list[Figure] = []
    if rows.prediction is not None:
        errors = np.concatenate([known.wrong, *(np.ones(len(split), dtype=np.bool_) for split in unknown.values())])
        scores = np.concatenate([known.score, *(split.score for split in unknown.values())])
        named |= {"known": "test, right", "unknown": " + ".join(["test, wrong", *unknown])}
        found += measure(rank(scores, errors)[0], ["aurc"], **named, setting="unknown_detection")
        named |= {"unknown": "test, wrong", "setting": "misclassification_detection"}
        found += measure(rank_errors(known), ["accuracy", "aurc", "eaurc"], **named)
    far: list[Figure] = []
    for split, of_split in unknown.items():
        named |= {"known": "test", "unknown": split, "setting": "ood_detection"}
        ood = measure(rank_known_unknown(known, of_split), ["fpr_at_95_tpr_known_positive", "auroc"], **named)
        found += ood
        far += ood if of_split.role[0] == "far_ood" else []
    return found + means(far)


PROTOCOL = Protocol(
    "Unknown detection",
    "Kim, Koo and Hwang, A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks (2023)",
    {
        "unknown_detection": "Unknown detection",
        "misclassification_detection": "Misclassification detection",
        "ood_detection": "OoD detection",
    },
    ("unknown_detection", "misclassification_detection"),
    figures,
    headline={"setting": "unknown_detection", "metric": "aurc", "statistic": ""},
)
