"""Calibration of confidences on known rows: Guo et al., On Calibration of Modern Neural Networks (ICML 2017).

None of the benchmarks' papers asks for it; a report has it wherever the confidence of predictions is known.

Tested by `tests/evaluation/reports/test_report.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from unknown_detection.evaluation.display.plots import Curve, plot_curves
from unknown_detection.evaluation.display.tables import ResultTable, detector_name
from unknown_detection.evaluation.metrics.metrics import ECE, binned, ece
from unknown_detection.evaluation.protocols.pictures import Picture, Scene
from unknown_detection.evaluation.protocols.protocol import Protocol, by_detector
from unknown_detection.evaluation.protocols.results import Figure, measure
from unknown_detection.evaluation.scoring.rows import Rows

NAME = "calibration"


def figures(rows: Rows) -> list[Figure]:
    """Compute accuracy and ECE of the labelled in-distribution rows of `test`; none without confidences for them."""
    judged = _judged(rows)
    if judged is None:
        return []
    named = {"protocol": NAME, "config": str(rows.config[0]), "setting": NAME}
    accuracy = measure(judged.by_errors(), ["accuracy"], **named, known="test, right", unknown="test, wrong")[0]
    error = ece(np.asarray(judged.confidence), judged.wrong)
    return [accuracy, Figure(**{**vars(accuracy), "metric": ECE.name, "value": error, "factor": ECE.factor})]


def _judged(rows: Rows) -> Rows | None:
    if rows.confidence is None or rows.prediction is None:
        return None
    judged = rows.where(rows.known & (rows.split == "test") & (rows.label >= 0))
    assert judged.confidence is not None
    return judged if len(judged) and np.isfinite(judged.confidence).all() else None


def tables(lines: pd.DataFrame) -> Iterator[ResultTable]:
    """Lay out accuracy and ECE of each config."""
    note = "In percent. ECE: mean gap between confidence and accuracy over 15 bins, known test rows only."
    yield by_detector((NAME,), PROTOCOL.title, note, lines, lambda line: line["config"])


def reliability(scene: Scene) -> Iterator[Picture]:
    """Draw a reliability diagram of each config: accuracy against confidence, on the diagonal if calibrated."""
    for config, of_config in scene.rows.items():
        curves = []
        for name, rows in of_config.items():
            if (judged := _judged(rows)) is not None:
                count, confident, right = binned(np.asarray(judged.confidence), judged.wrong)
                full, error = count > 0, ece(np.asarray(judged.confidence), judged.wrong)
                x, y = confident[full] / count[full], right[full] / count[full]
                label = f"{detector_name(name)} (ECE {100 * error:.2f} %)"
                curves.append(Curve(x, y, label, dots=count[full] / count.sum()))
        title = f"Reliability on {config}, {scene.runs[config]}"
        axes = "confidence (%); dots by rows", "accuracy (%)"
        figure = plot_curves(curves, title=title, axes=axes, diagonal="calibrated")
        yield Picture(scene.name(NAME, config), title, figure)


PROTOCOL = Protocol(
    name=NAME,
    title="Calibration",
    paper="Guo et al., On Calibration of Modern Neural Networks (2017)",
    settings={NAME: "Calibration"},
    judge=figures,
    tables=tables,
    pictures=(reliability,),
)
"""Judged wherever confidences are known, so nobody asks for it by its name."""
