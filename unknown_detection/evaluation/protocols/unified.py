"""The protocol of the unified benchmark: one figure over all unknowns, and one for each kind.

Kim, Koo and Hwang, A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks (2023), section 4.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

import pandas as pd

from unknown_detection.evaluation.frame import TEST, against, by_errors, known_rows, rankings, unknown_splits
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, Shown, means, measure

NAME = "unknown-detection"
UNKNOWN = ("near_ood", "far_ood")


def figures(rows: pd.DataFrame) -> list[Figure]:
    """Evaluate a config.

    Unknown detection: AURC over the in-distribution rows of `test` and all near-OoD and far-OoD rows, each of which
    counts as an error. Misclassification detection: AURC and E-AURC over the in-distribution rows of `test`, and their
    accuracy. OoD detection: FPR at 95 % TPR, known rows positive, and AUROC for each OoD split, and the means over
    far-OoD splits.
    """
    known = known_rows(rows)
    unknown = unknown_splits(rows, UNKNOWN)
    measured: list[Figure] = []
    if "wrong" in rows:
        named = {"known": "test, right", "unknown": " + ".join(["test, wrong", *unknown])}
        measured += measure(
            rankings(known, *unknown.values())["errors"], ["aurc"], **named, setting="unknown_detection"
        )
        named |= {"unknown": "test, wrong", "setting": "misclassification_detection"}
        measured += measure(by_errors(known), ["accuracy", "aurc", "eaurc"], **named)
    far: list[Figure] = []
    for split, of_split in unknown.items():
        named = {"known": TEST, "unknown": split, "setting": "ood_detection"}
        ood = measure(against(known, of_split), ["fpr_at_95_tpr_known_positive", "auroc"], **named)
        measured += ood
        far += ood if of_split["role"].iloc[0] == "far_ood" else []
    return measured + means(far)


PROTOCOL = Protocol(
    name=NAME,
    title="Unknown detection",
    paper="Kim, Koo and Hwang, A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks "
    "(2023)",
    settings={
        "unknown_detection": "Unknown detection",
        "misclassification_detection": "Misclassification detection",
        "ood_detection": "OoD detection",
    },
    with_predictions=("unknown_detection", "misclassification_detection"),
    judge=figures,
    of_paper=("cifar", "imagenet"),
    shows=(
        Shown("All unknowns", {"setting": "unknown_detection", "metric": "aurc"}),
        *(
            shown
            for metric in ("auroc", "fpr_.*")
            for shown in (
                Shown("{set}", {"unknown": "near_ood", "statistic": "", "metric": metric}),
                Shown("Far mean", {"statistic": "mean", "metric": metric}),
            )
        ),
    ),
    note="Tables 6 and 7 of the paper. Known rows are positive for FPR@95%TPR. In unknown detection every row of an "
    "OoD set counts as an error.",
    plots=("roc", "risk_coverage", "densities", "heatmap"),
    drawn=lambda rows: rows["known"] & (rows["split"] == TEST) | rows["role"].isin(UNKNOWN),
)
