"""OoD detection on equal numbers of known and unknown rows, as the optimizer paper measures it.

    unknown-detection evaluate report --scores scores.parquet --release DIR \
        --protocol examples/papers/equal_numbers.py:EQUAL_NUMBERS --out build/report

Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution Detection
Approaches (2020), tables 2 and 3. AUPR depends on how many rows there are of each kind, so it can be compared between
sets of unknowns, and with the paper, on equal numbers only.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

import unknown_detection as ud

METRICS = (
    "fpr_at_95_tpr_known_positive",
    "detection_error_known_positive",
    "auroc",
    "aupr_out_average_precision",
    "aupr_in_average_precision",
)
"""The paper's (section 4.3), in the order of its tables. It does not name its estimator of AUPR: ours."""

ROLES = ("near_ood", "far_ood", "novel_class", "adversarial", "synthetic", "corruption", "multi_label")


def figures(rows: pd.DataFrame) -> list[ud.protocols.Figure]:
    """Compare the in-distribution rows of `test` with as many rows of each split of unknowns.

    Of the larger side, as many rows count as the smaller one has: those whose ids come first by a keyed hash, so that
    every model and detector is judged on the same ones.
    """
    known, measured = ud.protocols.known_rows(rows), []
    for split, unknown in ud.protocols.unknown_splits(rows, ROLES).items():
        count = min(len(known), len(unknown))
        ranking = ud.protocols.against(first(known, count), first(unknown, count))
        named = {"setting": "equal-numbers", "known": "test", "unknown": split}
        measured += ud.protocols.measure(ranking, METRICS, **named)
    return measured


def first(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return the rows whose ids have the least SHA-256 with our key."""
    ranks = [hashlib.sha256(f"equal-numbers\t{id_}".encode()).digest() for id_ in rows["id"].tolist()]
    chosen = np.zeros(len(rows), dtype=np.bool_)
    chosen[sorted(range(len(rows)), key=ranks.__getitem__)[:count]] = True
    return rows[chosen]


EQUAL_NUMBERS = ud.protocols.Protocol(
    name="equal-numbers",
    title="OoD detection on equal numbers of rows",
    paper="Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution "
    "Detection Approaches (2020), section 4.1",
    settings={"equal-numbers": "Equal numbers"},
    judge=figures,
    shows=[ud.protocols.Shown("{set}", {"metric": name}) for name in ("auroc", METRICS[0])],
    note="The rows of tables 2 and 3 of the paper. Known rows are positive for FPR and detection error. Of the larger "
    "side a part is drawn.",
    plots=(),
)
