"""Calibration of a model's confidence on known rows: Guo et al., On Calibration of Modern Neural Networks (ICML 2017).

None of the benchmarks' papers asks for it; a report has it wherever the confidence of predictions is known.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.metrics.calibration import BINS, ece
from unknown_detection.evaluation.metrics.metrics import Metric
from unknown_detection.evaluation.protocols.figures import Figure, measure
from unknown_detection.evaluation.scoring.rows import Rows, rank_errors

NAME = "calibration"
TITLE = "Calibration"

Floats = npt.NDArray[np.float64]


def _of_confidence(ranking: object) -> float:
    raise TypeError("The expected calibration error takes confidences, not a ranking.")


ECE = Metric("ece", "ECE", "lower", _of_confidence)
"""Its name, title and factor. It is not in `METRICS`, whose entries are computed from a ranking of scores."""


Reliability = tuple[npt.NDArray[np.int64], Floats, Floats, float]
"""By bin, shape (B,), rows, and their mean confidence and accuracy, NaN without rows; and the ECE."""


def figures(rows: Rows) -> list[Figure]:
    """Compute accuracy and ECE of the labelled in-distribution rows of `test`.

    Returns:
        Two figures; none if confidences or predictions are missing, or there are no such rows.
    """
    judged = _judged(rows)
    if judged is None:
        return []
    named = {"protocol": NAME, "config": str(rows.config[0]), "setting": NAME}
    accuracy = measure(rank_errors(judged), ["accuracy"], **named, known="test, right", unknown="test, wrong")[0]
    error = ece(np.asarray(judged.confidence), judged.wrong)
    return [accuracy, Figure(**{**vars(accuracy), "metric": ECE.name, "value": error, "factor": ECE.factor})]


def reliability(rows: Rows) -> Reliability | None:
    """Return the reliability diagram of a config's rows; None if there is no ECE."""
    judged = _judged(rows)
    if judged is None:
        return None
    confidence = np.asarray(judged.confidence)
    places = np.digitize(confidence, np.arange(1, BINS) / BINS, right=True)
    count = np.bincount(places, minlength=BINS)
    with np.errstate(invalid="ignore"):
        confident, accurate = (np.bincount(places, value, BINS) / count for value in (confidence, ~judged.wrong))
    return count, confident, accurate, ece(confidence, judged.wrong)


def _judged(rows: Rows) -> Rows | None:
    if rows.confidence is None or rows.prediction is None:
        return None
    found = rows.where(rows.known & (rows.split == "test") & (rows.label >= 0))
    assert found.confidence is not None
    return found if len(found) and np.isfinite(found.confidence).all() else None
