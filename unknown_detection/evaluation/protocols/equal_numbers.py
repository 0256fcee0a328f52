"""OoD detection on as many known as unknown rows: Abdelzad, Czarnecki and Salay (2020), sections 4.1 and 4.3.

AUPR depends on how many rows there are of each kind, so it can be compared between sets of unknowns, and with that
paper, on equal numbers only.

Tested by `tests/evaluation/protocols/test_registry.py`.
"""

from __future__ import annotations

import hashlib

import numpy as np

from unknown_detection.evaluation.display.names import set_name
from unknown_detection.evaluation.protocols.od_test import ROLES
from unknown_detection.evaluation.protocols.protocol import Protocol, Shown, each_config
from unknown_detection.evaluation.protocols.results import Figure, measure
from unknown_detection.evaluation.scoring.rows import Rows, known_rows, rank_known_unknown, unknown_splits

NAME = SETTING = "equal-numbers"
METRICS = (
    "fpr_at_95_tpr_known_positive",
    "detection_error_known_positive",
    "auroc",
    "aupr_out_average_precision",
    "aupr_in_average_precision",
)
"""The paper's (section 4.3), in the order of its tables. It does not name its estimator of AUPR: ours."""


def figures(rows: Rows) -> list[Figure]:
    """Compare the in-distribution rows of `test` with as many rows of each split of unknowns.

    Of the larger side, as many rows count as the smaller one has: those whose ids come first by a keyed hash, so that
    every model and detector is judged on the same ones.
    """
    known = known_rows(rows, "test")
    named = {"protocol": NAME, "config": str(rows.config[0]), "setting": SETTING, "known": "test"}
    measured: list[Figure] = []
    for split, unknown in unknown_splits(rows, ROLES).items():
        count = min(len(known), len(unknown))
        ranking = rank_known_unknown(_first(known, count), _first(unknown, count))
        measured += measure(ranking, METRICS, unknown=split, **named)
    return measured


def _first(rows: Rows, count: int) -> Rows:
    """Return the rows whose ids have the least SHA-256 with our key."""
    ranks = [hashlib.sha256(f"{NAME}\t{id_}".encode()).digest() for id_ in rows.id.tolist()]
    chosen = np.zeros(len(rows), dtype=np.bool_)
    chosen[sorted(range(len(rows)), key=ranks.__getitem__)[:count]] = True
    return rows.where(chosen)


PROTOCOL = Protocol(
    name=NAME,
    title="OoD detection on equal numbers of rows",
    paper="Abdelzad, Czarnecki and Salay, The Effect of Optimization Methods on the Robustness of Out-of-Distribution "
    "Detection Approaches (2020), section 4.1",
    settings={SETTING: "Equal numbers"},
    judge=figures,
    summary=(Shown("{set}", {"metric": "auroc"}), Shown("{set}", {"metric": METRICS[0]})),
    # The rows of tables 2 and 3 of the paper.
    tables=lambda lines: each_config(
        NAME,
        "Equal numbers",
        "In percent; known rows are positive for FPR and detection error. Of the larger side a part is drawn.",
        lines,
        lambda line: set_name(line["unknown"]),
    ),
)
