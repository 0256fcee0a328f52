"""The base classes of detectors: declarations, hyperparameters, `fit` and `score`.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

import abc
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from unknown_detection.evaluation.detectors.rows import (
    FEATURES,
    LOGITS,
    Doubles,
    Integers,
    Scores,
    predicted,
    require_finite,
    require_labels,
    require_width,
    score_in_chunks,
)
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Floats, Head

Fit = Literal["none", "train", "validation"]
"""The in-distribution rows that a detector is fitted on."""

_COPIES = 6
"""Float64 copies of its inputs that a detector's function holds at once, at most."""


class Range(str):
    """The allowed values of a hyperparameter, in words such as `above 0`, and as a function, which `fit` calls."""

    allows: Callable[[float], bool]

    def __new__(cls, words: str, allows: Callable[[float], bool]) -> Self:
        """Make a range of its words and of a function."""
        self = super().__new__(cls, words)
        self.allows = allows
        return self


def at_least(least: float, words: str = "") -> Range:
    """Return a range without an upper end, described as `2 or more` or in other words."""
    return Range(words or f"{least:g} or more", lambda value: least <= value < math.inf)


POSITIVE = Range("above 0", lambda value: 0 < value < math.inf)


class Detector(abc.ABC):
    """A detector with its hyperparameters, which learns from in-distribution rows and scores any rows.

    The parameters of `__init__` are its hyperparameters: each has a default and is kept under its name, as in
    scikit-learn; a dataclass does both. One named `seed` gets the seed of the run, and is no hyperparameter.

    A row's score depends on this row only, not on the batch or the order of rows. The labels of rows to score and to
    tune on are -1. A detector of the user's own gets hashes in place of their ids, from which it may seed random
    numbers. One that changes the model's predictions has a `predict` of its own.

        >>> import numpy as np
        >>> from unknown_detection.evaluation.detectors import KNN
        >>> from unknown_detection.evaluation.models.features import Features
        >>> z = np.array([[1.0, 0.0], [0.0, 1.0]])
        >>> rows = Features(np.array(["a", "b"]), np.array([0, 1]), np.eye(2), z, [])
        >>> KNN(k=1).fit(rows).score(rows)
        array([0., 0.])

    Attributes:
        name: name on the command line and in results.
        title: name in a paper's table; `name` if empty.
        source: the paper and its section or equation.
        fits_on: the in-distribution rows to fit on; with "none", `fit` gets None for features.
        search: for each hyperparameter that is searched, the values to try, the default first.
        ranges: the values that a hyperparameter may have, in words, for the help; of a `Range`, others are refused.
        chosen_by: what the search compares: the AUROC of validation against `external_validation` rows, or that of
            right against wrong validation rows, which needs no unknown ones.
        reads: what is scored: the `Features` of one model; the logits of several members in `Features.members`; or
            the outputs of a second pass over the images in `Features.passed`, see `ImageDetector`.
        reads_head: whether it reads the weights of the last linear layer; if not, `fit` may get None for it, and the
            logits may come from any head.
        base_methods: names of the detectors whose scores it combines, read from `Features.scores` both for fitting
            and for scoring.
        requires: optional modules that fitting imports, checked before any detector is fitted.
        digest: SHA-256 of the file that defines it, for a detector of the user's own; else empty.
        remark: what is special of the rows that it was fitted on, in words.
    """

    name: str = ""
    title: str = ""
    source: str = ""
    fits_on: ClassVar[Fit] = "none"
    search: ClassVar[Mapping[str, tuple[float, ...]]] = {}
    ranges: ClassVar[Mapping[str, str]] = {}
    chosen_by: ClassVar[Literal["external", "errors"]] = "external"
    reads: ClassVar[Literal["features", "members", "images"]] = "features"
    reads_head: ClassVar[bool] = False
    base_methods: ClassVar[tuple[str, ...]] = ()
    requires: ClassVar[tuple[str, ...]] = ()
    digest: ClassVar[str] = ""
    remark: str = ""

    def fit(self, features: Any, head: Any = None) -> Self:
        """Learn from labelled in-distribution rows and the model's last layer; by default, nothing.

        Args:
            features: the `Features` of the rows; None if `fits_on` is "none".
            head: the `Head` of the model; None for a detector that does not read it.

        Raises:
            EvaluationError: rows are missing, unlabelled, too few, not finite or of another width than the layer, or
                a hyperparameter is out of range.
        """
        return self

    @abc.abstractmethod
    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), float64, higher = more unknown.

        Raises:
            EvaluationError: rows have another width than those it was fitted on, or an input or a score is NaN or
                infinite.
        """

    def predict(self, features: Features) -> Integers:
        """Return the class of every row, int64 of shape (n,), -1 for none of the classes; by default, the model's."""
        return predicted(features)

    @staticmethod
    def score_together(detectors: Sequence[Any], features: Features) -> list[Scores]:
        """Score with several detectors of one class, fitted on the same rows with different hyperparameters.

        To override where they share most of their work; a search then tries its values at once.
        """
        return [detector.score(features) for detector in detectors]

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """Return the hyperparameters by name with their defaults; None is computed from the fitted rows."""
        parameters = inspect.signature(cls).parameters.values()
        return {p.name: p.default for p in parameters if p.name != "seed" and p.kind is p.POSITIONAL_OR_KEYWORD}


class RowDetector(Detector):
    """A detector that is a function of a row's penultimate features, its logits, or both (`inputs`), in float64.

    Its rows are checked, and scored a chunk at a time, so that memory does not grow with the split: `more` is how many
    float64 numbers the function holds per row beside copies of its inputs.
    """

    inputs: ClassVar[tuple[str, ...]] = (LOGITS,)
    more: int = 0
    _rows: Callable[..., Scores]
    """Maps float64 inputs of m rows to m scores."""
    _widths: Mapping[str, int] | None = None

    def fit(self, features: Features | None = None, head: Head | None = None) -> Self:
        """See `Detector.fit`."""
        for name, allowed in self.ranges.items():
            value = getattr(self, name)
            if value is not None and isinstance(allowed, Range) and not allowed.allows(value):
                raise EvaluationError(f"{name} of {self.name} must be {allowed}, found {value}; give another.")
        if self.reads_head:
            if head is None:
                raise EvaluationError(
                    f"{self.name} reads the model's last layer, found none. Give the head to fit, or leave it out for "
                    "a model whose logits are no linear layer's."
                )
            self._widths = {LOGITS: head.weight.shape[0], FEATURES: head.weight.shape[1]}
            if features is not None:
                self._read(features, (FEATURES, LOGITS))
        elif features is not None:
            self._widths = {LOGITS: features.logits.shape[1], FEATURES: features.penultimate.shape[1]}
        if self.fits_on != "none":
            if features is None:
                raise EvaluationError(f"{self.name} is fitted on rows of {self.fits_on}, found none. Give features.")
            require_labels(features, self.name)
            for name, values in self._read(features, self.inputs).items():
                require_finite(name, values, features.ids)
        self._learn(features, head)
        return self

    def _learn(self, features: Any, head: Any) -> None:
        """Learn from labelled rows of the head's width; None stands for rows or a head that it does not read."""

    def score(self, features: Features) -> Scores:
        """See `Detector.score`."""
        self._require_fitted()
        inputs = self._inputs(features)
        doubles = _COPIES * sum(values.shape[1] for values in inputs.values()) + self.more
        return score_in_chunks(self._rows, inputs, features.ids, doubles)

    def _require_fitted(self) -> None:
        if self._widths is None and (self.reads_head or self.fits_on != "none"):
            raise EvaluationError(f"{self.name} is not fitted. Call its method fit first.")

    def _inputs(self, features: Features) -> dict[str, Floats]:
        """Return the matrices that are scored, by their name in errors."""
        return self._read(features, self.inputs)

    def _read(self, features: Features, names: Sequence[str]) -> dict[str, Floats]:
        matrices = {FEATURES: features.penultimate, LOGITS: features.logits}
        for name in names:
            if self._widths is not None:
                require_width(name, matrices[name], self._widths[name])
        return {name: matrices[name] for name in names}


class Together(RowDetector):
    """A detector whose instances share most of their work when they score together."""

    def score(self, features: Features) -> Scores:
        """See `Detector.score`."""
        return self.score_together([self], features)[0]

    @staticmethod
    def score_together(detectors: Sequence[Any], features: Features) -> list[Scores]:
        """Score with several detectors of one class, fitted on the same rows, in little more than the time of one."""
        detectors[0]._require_fitted()
        inputs = detectors[0]._inputs(features)
        function, doubles = detectors[0]._plan(detectors, features)
        return list(score_in_chunks(function, inputs, features.ids, doubles, (len(detectors),)).T)

    @abc.abstractmethod
    def _plan(self, detectors: Sequence[Any], features: Features) -> tuple[Callable[..., Doubles], int]:
        """Return a function from rows of the inputs to scores (m, detectors), and how many numbers it holds a row."""
