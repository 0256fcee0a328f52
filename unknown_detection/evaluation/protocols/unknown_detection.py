"""The protocol of the unified benchmark: one figure over all unknowns, and one for each kind.

Kim, Koo and Hwang, A Unified Benchmark for the Unknown Detection Capability of Deep Neural Networks (2023), section 4.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.tables import ResultTable, set_name
from unknown_detection.evaluation.metrics.ranking import rank
from unknown_detection.evaluation.protocols import pictures
from unknown_detection.evaluation.protocols.protocol import Protocol, Shown, by_detector
from unknown_detection.evaluation.protocols.results import Figure, Line, means, measure
from unknown_detection.evaluation.scoring.rows import Rows

NAME = "unknown-detection"
UNKNOWN = ("near_ood", "far_ood")


def figures(rows: Rows) -> list[Figure]:
    """Evaluate a config.

    Unknown detection: AURC over the in-distribution rows of `test` and all near-OoD and far-OoD rows, each of which
    counts as an error. Misclassification detection: AURC and E-AURC over the in-distribution rows of `test`, and their
    accuracy. OoD detection: FPR at 95 % TPR, known rows positive, and AUROC for each OoD split, and the means over
    far-OoD splits.
    """
    known = rows.known_rows("test")
    unknown = rows.unknown_splits(UNKNOWN)
    named = {"protocol": NAME, "config": str(rows.config[0])}
    measured: list[Figure] = []
    if rows.prediction is not None:
        scores, errors = known.beside(*unknown.values())
        errors[: len(known)] = known.wrong
        named |= {"known": "test, right", "unknown": " + ".join(["test, wrong", *unknown])}
        measured += measure(rank(scores, errors)[0], ["aurc"], **named, setting="unknown_detection")
        named |= {"unknown": "test, wrong", "setting": "misclassification_detection"}
        measured += measure(known.by_errors(), ["accuracy", "aurc", "eaurc"], **named)
    far: list[Figure] = []
    for split, of_split in unknown.items():
        named |= {"known": "test", "unknown": split, "setting": "ood_detection"}
        ood = measure(known.against(of_split), ["fpr_at_95_tpr_known_positive", "auroc"], **named)
        measured += ood
        far += ood if of_split.role[0] == "far_ood" else []
    return measured + means(far)


def tables(lines: pd.DataFrame) -> Iterator[ResultTable]:
    """Lay out tables 6 and 7 of the paper: accuracy, all unknowns, misclassifications, each OoD set."""
    note = (
        "AURC and E-AURC are multiplied by 1,000, all other figures are in percent; known rows are positive for "
        "FPR@95%TPR. In unknown detection every row of an OoD set counts as an error."
    )
    for config, group in lines.groupby("config", sort=False):
        accuracy_last = group.sort_values("metric", key=lambda names: names == "accuracy", kind="stable")
        yield by_detector((NAME, config), f"{PROTOCOL.title} on {config}", note, accuracy_last, _titled)


def _titled(line: Line) -> str:
    if line["metric"] == "accuracy":
        return ""
    titles = {"unknown_detection": "Unknown", "misclassification_detection": "Misclassified"}
    return titles.get(line["setting"]) or ("Far mean" if line["statistic"] else set_name(line["unknown"]))


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
    summary=(
        Shown("", {"setting": "unknown_detection", "metric": "aurc"}),
        *(
            shown
            for metric in ("auroc", "fpr_.*")
            for shown in (
                Shown("{set}", {"unknown": "(?!far_ood).*", "statistic": "", "metric": metric}),
                Shown("Far mean", {"statistic": "mean", "metric": metric}),
            )
        ),
    ),
    tables=tables,
    # Figures 5 and 6 of the paper, and curves.
    pictures=(
        pictures.changes,
        partial(pictures.heatmap, setting="ood_detection", by=["config"]),
        *(pictures.roc_curves, pictures.risk_coverage_curves, pictures.densities),
    ),
    drawn=lambda rows: rows.known & (rows.split == "test") | np.isin(rows.role, UNKNOWN),
)
