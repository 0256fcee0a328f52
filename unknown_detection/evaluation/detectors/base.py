"""The interface of detectors, and the description of a detection method.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.models.features import Features

Scores = npt.NDArray[np.float64]
"""One score per row, shape (n,); higher means more unknown."""

Fit = Literal["none", "train", "validation"]
"""The in-distribution rows that a method is fitted on."""


class Detector(Protocol):
    """A fitted detector. A row's score depends on this row only, not on the batch or the order of rows.

    The labels of rows to score and to tune on are -1. A detector of the user's own gets hashes in place of their ids,
    from which it may seed random numbers.
    """

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), float64, higher = more unknown."""
        ...


@runtime_checkable
class PredictingDetector(Detector, Protocol):
    """A detector that changes the model's predictions, so that it has an accuracy of its own."""

    def predict(self, features: Features) -> npt.NDArray[np.int64]:
        """Return the predicted class of every row, shape (n,); -1 for none of the classes."""
        ...


@dataclass(frozen=True)
class Method:
    """A detection method, before it is fitted.

    Attributes:
        name: name on the command line and in results.
        title: name in a paper's table.
        source: the paper and its section or equation.
        make: fits and returns the detector; called as `make(features, head, **hyperparameters)` with the labelled
            in-distribution rows that `fit` names (None for "none") and the model's last layer. Its docstring has the
            formula. It raises `EvaluationError` if rows are missing, unlabelled, too few, not finite or of another
            width than the layer, or a hyperparameter is out of range; so does `score` of what it returns.
        fit: the in-distribution rows to fit on.
        grid: for each hyperparameter, the values that the search tries, the default first.
        chosen_by: what the search compares: the AUROC of validation against `external_validation` rows, or that of
            right against wrong validation rows, which needs no unknown ones.
        reads: the input of the score: the `Features` of one model; the logits of several members in
            `Features.members`; or the model and the images, in a second pass.
        reads_head: whether the score depends on the weights of the last linear layer; if not, `make` may get None for
            it, and the logits may come from any head.
        base_methods: names of the methods whose scores it combines, read from `Features.scores` both for fitting and
            for scoring; empty for all others.
        ranges: the values that a hyperparameter may have, in words, for the help.
        score_together: computes the scores of several detectors, fitted on the same rows with different
            hyperparameters, at once if they share most of their work; else None.
        digest: SHA-256 of the file that defines it, for a detector of the user's own; else empty.
        requires: optional modules that fitting imports, checked before any detector is fitted.
    """

    name: str
    title: str
    source: str
    make: Callable[..., Detector]
    fit: Fit = "none"
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    chosen_by: Literal["external", "errors"] = "external"
    reads: Literal["features", "members", "images"] = "features"
    reads_head: bool = False
    base_methods: tuple[str, ...] = ()
    score_together: Callable[[Sequence[Any], Features], list[Scores]] | None = None
    ranges: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    requires: tuple[str, ...] = ()
