"""Vacuity as a detector of one's own."""

import numpy as np
import pytest

from tests.examples.paths import EXAMPLES
from unknown_detection.evaluation.detectors.own import load_own
from unknown_detection.evaluation.models.features import Features


def features_of(logits):
    rows = len(logits)
    return Features(
        logits=np.asarray(logits, dtype=np.float32),
        penultimate=np.zeros((rows, 0), dtype=np.float32),
        blocks=(),
        ids=np.array([str(row) for row in range(rows)]),
        labels=np.full(rows, -1),
    )


def test_vacuity_by_hand():
    """Two classes: evidence (1, 1) gives S = 4 and 2 / 4; evidence (2, nearly 0) nearly 2 / 4; (6, 1) 2 / 9."""
    detector = load_own(f"{EXAMPLES / 'edl_vacuity.py'}:EDLVacuity")
    scores = detector.score(features_of([[0, 0], [np.log(2), -10], [np.log(6), 0], [-60, -60], [60, 60]]))
    assert scores[:3] == pytest.approx([2 / 4, 2 / (4 + np.exp(-10)), 2 / 9], rel=1e-6)
    # Logits are clamped to [-10, 10], as they are in training.
    assert scores[3:] == pytest.approx([2 / (2 + 2 * np.exp(-10)), 2 / (2 + 2 * np.exp(10))], rel=1e-6)
