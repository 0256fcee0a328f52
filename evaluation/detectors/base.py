"""What a detector is, and the table they stand in.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from evaluation.models.features import Features

Scores = npt.NDArray[np.float64]
"""One score for each row, shape (n,), higher = more unknown."""

Fit = Literal["none", "train", "validation"]
"""The in-distribution rows that a detector is fitted on."""


class Detector(Protocol):
    """A fitted detector. Scores depend on nothing but the row: not on the batch, the order or the rows beside it."""

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), float64, higher = more unknown."""
        ...


@dataclass(frozen=True)
class Method:
    """A way to detect unknowns, before it is fitted.

    Attributes:
        name: as the command line and the results write it.
        title: as a paper's table writes it.
        source: the paper and its section or equation.
        make: fits and returns the detector; called as `make(features_to_fit_on, head, **hyperparameters)`, where the
            features are those of the rows that `fit` names (None for "none").
        fit: which in-distribution rows it is fitted on.
        grid: for each hyperparameter the values that a search on `external_validation` tries, the default first.
        reads: where a row's score comes from: the fields of `Features` that every model fills; the logits of several
            members in `Features.members`; or the model and the images again.
        parts: names of the methods whose scores it reads in `Features.scores`, of the rows to fit on as of those to
            score; empty for all but mixtures of scores.
        together: gives what `score` of each of several detectors gives, made with other hyperparameters of the same
            rows, where these share most of their work; None elsewhere.
    """

    name: str
    title: str
    source: str
    make: Callable[..., Detector]
    fit: Fit = "none"
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    reads: Literal["features", "members", "images"] = "features"
    parts: tuple[str, ...] = ()
    together: Callable[[Sequence[Any], Features], list[Scores]] | None = None
