"""The protocol of the unified benchmark: one figure over all unknowns, and one for each kind of unknowns.

Kim, Koo and Hwang, A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks (2023), section 4.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

import pandas as pd

from unknown_detection.evaluation.frame import TEST, by_errors, known_rows, rankings, unknown_splits
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, Shown, means, measure, measure_each

NAME = "unknown-detection"
UNKNOWN = ("near_ood", "far_ood")
METRICS = ("fpr_at_95_tpr_known_positive", "auroc")


def figures(rows: pd.DataFrame) -> list[Figure]:
    """Compute the figures of a config.

    Unknown detection: AURC over the in-distribution rows of `test` and all near-OoD and far-OoD rows, each of which
    counts as an error. Misclassification detection: AURC and E-AURC over the in-distribution rows of `test`, and their
    accuracy. AUGRC, which is not the paper's, stands beside AURC. OoD detection: FPR at 95 % TPR, known rows positive,
    and AUROC for each OoD split, and the means over far-OoD splits.
    """
    known, unknown = known_rows(rows), unknown_splits(rows, UNKNOWN)
    measured: list[Figure] = []
    if "wrong" in rows:
        named = {"known": "test, right", "unknown": " + ".join(["test, wrong", *unknown])}
        ranking = rankings(known, *unknown.values(), takes=["errors"])["errors"]
        measured += measure(ranking, ["aurc", "augrc"], **named, setting="unknown_detection")
        named |= {"unknown": "test, wrong", "setting": "misclassification_detection"}
        measured += measure(by_errors(known), ["accuracy", "aurc", "eaurc", "augrc"], **named)
    of_splits = measure_each(known, unknown, METRICS, known=TEST, setting="ood_detection")
    far = {split for split, of_split in unknown.items() if of_split["role"].iloc[0] == "far_ood"}
    of_far = [figure for figure in of_splits if figure["unknown"] in far]
    return measured + of_splits + means(of_far, n_known=len(known))


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
)
