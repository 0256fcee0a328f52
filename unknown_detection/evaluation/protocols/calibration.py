"""Calibration of confidences on known rows: Guo et al., On Calibration of Modern Neural Networks (ICML 2017).

None of the benchmarks' papers asks for it; a report has it wherever the confidence of predictions is known.

Tested by `tests/evaluation/report/test_report.py`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from unknown_detection.evaluation.frame import TEST, by_errors
from unknown_detection.evaluation.metrics.metrics import ece
from unknown_detection.evaluation.protocols.protocol import Figure, Protocol, measure

NAME = "calibration"


def figures(rows: pd.DataFrame) -> list[Figure]:
    """Compute accuracy and ECE of the labelled in-distribution rows of `test`; none without confidences for them."""
    if not {"confidence", "wrong"} <= {*rows}:
        return []
    judged = rows[rows["known"] & (rows["split"] == TEST) & (rows["label"] >= 0)]
    if not len(judged) or not np.isfinite(judged["confidence"]).all():
        return []
    (accuracy,) = measure(by_errors(judged), ["accuracy"], setting=NAME, known="test, right", unknown="test, wrong")
    return [accuracy, accuracy | {"metric": "ece", "value": ece(judged["confidence"], judged["wrong"])}]


PROTOCOL = Protocol(
    name=NAME,
    title="Calibration",
    paper="Guo et al., On Calibration of Modern Neural Networks (2017)",
    settings={NAME: "Calibration"},
    judge=figures,
    note="ECE: mean gap between confidence and accuracy over 15 bins, known test rows only.",
    plots=(),
)
"""Judged wherever confidences are known, so nobody asks for it by its name."""
