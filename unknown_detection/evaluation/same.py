"""Says whether two models are one: of the same weights, and of code that gives the same input the same logits.

Tested by `tests/evaluation/test_several.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

CODE_TOLERANCE = 1e-3
"""Difference of two runs' logits, relative to their range, that is rounding: other batch sizes, threads and devices
move features by less than 1e-5 of a column's largest value (`extract`), and other code by far more; ours."""


class Recorded(Protocol):
    """What is recorded of a model with its features, an `Identity`, or with its scores, a `Provenance`."""

    @property
    def model_digest(self) -> str: ...  # noqa: D102
    @property
    def probed(self) -> Sequence[float]: ...  # noqa: D102


def same_logits(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether the logits of two runs are equal up to rounding."""
    allowed = CODE_TOLERANCE * float(np.ptp(second))
    return len(first) == len(second) and np.allclose(first, second, rtol=CODE_TOLERANCE / 100, atol=allowed)


def same_code(first: Recorded, second: Recorded) -> bool:
    """Return whether two models of the same weights have the same logits of fixed inputs, where both are recorded."""
    return not first.probed or not second.probed or same_logits(second.probed, first.probed)


def same_model(first: Recorded, second: Recorded) -> bool:
    """Return whether two models have the same weights, preprocessing and logits."""
    return first.model_digest == second.model_digest and same_code(first, second)
