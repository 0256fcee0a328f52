"""The base classes of detectors.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import numpy as np

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features, Floats, Head, Integers

Scores = Doubles
"""One score per row, shape (n,); higher means more unknown."""

FEATURES, LOGITS = "penultimate features", "logits"
"""Names of a detector's inputs, in errors."""

_INPUTS = {"z": FEATURES, "logits": LOGITS}
"""The inputs by the parameters of `_rows` that stand for them."""

_CACHED = 1 << 16
"""Logits that are computed at once, 512 KiB: nothing gains from more, and copies stay in a core's cache."""

Fit = Literal["none", "train", "validation"]
"""The in-distribution rows that a detector is fitted on."""

ChosenBy = Literal["external", "errors"]
"""What a search compares, see `Detector.chosen_by`."""

Reads = Literal["features", "members", "images"]
"""What a detector scores, see `Detector.reads`."""


Cost = Literal["", "values", "products", "search", "pass", "gradients"]
"""What takes most of a row's time: a few operations on each value; products with matrices; a comparison with all
fitted rows; more passes of the model over the image; gradients too. Empty for what follows from what it reads."""


def setting(default: Any, *others: float, allowed: str) -> Any:
    """Declare a hyperparameter of a `RowDetector`: default, the others that a search tries, and `Detector.ranges`."""
    return dataclasses.field(default=default, metadata={"search": (default, *others), "allowed": allowed})


class Detector(abc.ABC):
    """A detector with its hyperparameters, which learns from in-distribution rows and scores any rows.

    The parameters of `__init__` are its hyperparameters: each has a default and is kept under its name, as in
    scikit-learn; a dataclass does both. One named `seed` gets the seed of the run, and is no hyperparameter.

    A row's score depends on this row only, not on the batch or the order of rows. The labels of rows to score and to
    tune on are -1. A detector of the user's own gets hashes in place of their ids, from which it may seed random
    numbers, and arrays that are read-only: it changes copies. That guards against accidents, not against code that
    looks for more, as with `inspect`. One that changes the model's predictions has a `predict` of its own.

        >>> import numpy as np
        >>> from unknown_detection.evaluation.detectors import KNN
        >>> from unknown_detection.evaluation.models.features import Features
        >>> z = np.array([[1.0, 0.0], [0.0, 1.0]])
        >>> rows = Features(np.array(["a", "b"]), np.array([0, 1]), np.eye(2), z, [])
        >>> KNN(k=1).fit(rows).score(rows)
        array([0., 0.])

    Attributes:
        name: name on the command line and in results.
        title: name in papers, for tables and plots; `name` if empty.
        source: the paper and its section or equation.
        fits_on: the in-distribution rows to fit on. A class that overrides `fit` is fitted on "train" unless it says
            otherwise; with "none", `fit` gets no rows, but the head.
        search: for each hyperparameter that is searched, the values to try, the default first.
        ranges: the values that a hyperparameter may have, in words, for the help; of a `Range`, others are refused.
        chosen_by: what the search compares: the AUROC of validation against `external_validation` rows, or that of
            right against wrong validation rows, which needs no unknown ones.
        reads: what is scored: the `Features` of one model; the logits of several members in `Features.members`; or
            the outputs of a second pass over the images in `Features.passed`, see `ImageDetector`.
        reads_head: whether it reads the weights of the last linear layer; if not, `Features.head` may be None, and the
            logits may come from any head.
        image_pass: the second pass over the images that it needs, see `ImageDetector`; None for none.
        base_methods: names of the detectors whose scores it combines, read from `Features.scores` both for fitting
            and for scoring.
        requires: optional modules that fitting imports, checked before any detector is fitted.
        cost: what the time to score a row is spent on, see `Cost`; for the table of detectors.
        compared: whose code tests compare its scores with, besides the formula; for the table, and not inherited.
        digest: SHA-256 of the file that defines it, for a detector of the user's own; else empty.
        remark: what is special of the rows that it was fitted on, in words.
    """

    name: str = ""
    title: str = ""
    source: str = ""
    fits_on: ClassVar[Fit] = "none"
    search: ClassVar[Mapping[str, tuple[float, ...]]] = {}
    ranges: ClassVar[Mapping[str, str]] = {}
    chosen_by: ClassVar[ChosenBy] = "external"
    reads: ClassVar[Reads] = "features"
    reads_head: ClassVar[bool] = False
    image_pass: ClassVar[Any] = None
    base_methods: ClassVar[tuple[str, ...]] = ()
    requires: ClassVar[tuple[str, ...]] = ()
    cost: ClassVar[Cost] = ""
    compared: ClassVar[str] = ""
    digest: str = ""
    remark: str = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Fit a class that overrides `fit` on training rows, unless it or a class of its author says otherwise."""
        super().__init_subclass__(**kwargs)
        declaring = next(kind for kind in cls.__mro__ if "fits_on" in vars(kind))
        if {"fit", "_learn"} & vars(cls).keys() and declaring is not cls and declaring.__module__ == __name__:
            cls.fits_on = "train"

    def fit(self, features: Any, head: Any = None) -> Self:
        """Learn from labelled in-distribution rows and the model's last layer; by default, nothing.

        Args:
            features: the `Features` of the rows, none of them if `fits_on` is "none", with the model's last layer.
            head: the `Head` of the model, in place of `Features.head`. A `fit` of one's own need not take it.

        Raises:
            EvaluationError: rows are missing, unlabelled, too few or not finite, or a hyperparameter is out of range.
        """
        return self

    @abc.abstractmethod
    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), float64, higher = more unknown.

        Raises:
            EvaluationError: an input or a score is NaN or infinite.
        """

    def predict(self, features: Features) -> Integers:
        """Return the class of every row, int64 of shape (n,), -1 for none; by default, as the model predicts."""
        return arrays.predicted(features)

    def parameters(self) -> dict[str, Any]:
        """Return the hyperparameters by name; None stands for a value that is computed from the fitted rows."""
        return {name: value for name, value in self.arguments().items() if name != "seed"}

    def clone(self, **values: Any) -> Self:
        """Return a copy with other values of some hyperparameters, or another `seed`."""
        copied = copy.deepcopy(self)
        if values:
            type(self).__init__(copied, **{**self.arguments(), **values})
        return copied

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `__init__`, the seed included, with NumPy's numbers as Python's."""
        kept = {}
        for name, parameter in inspect.signature(type(self)).parameters.items():
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                if not hasattr(self, name):
                    raise EvaluationError(
                        f"{type(self).__name__} does not keep its hyperparameter {name}. Set self.{name} in its "
                        "__init__."
                    )
                value = getattr(self, name)
                kept[name] = value.item() if isinstance(value, np.generic) else value
        return kept


@dataclass_transform(field_specifiers=(setting,))
class RowDetector(Detector):
    """A detector that is a function of a row's penultimate features `z`, its `logits`, or both, in float64.

    The parameters of `_rows` say which. Rows are checked, and scored `at_once`, some thousands by default, so that
    memory does not grow with the split. What is learnt from rows is learnt in `_learn`. A detector that `reads_head`
    has the last layer's weights `matrix` (C, D) and `bias` (C,) in float64. Hyperparameters are fields of a dataclass,
    which a `setting` makes of the class.
    """

    fits_on: ClassVar[Fit] = "none"
    inputs: ClassVar[tuple[str, ...]] = ()
    at_once: ClassVar[int | None] = None
    matrix: Doubles
    bias: Doubles
    _rows: ClassVar[Callable[..., Scores]]
    """Maps float64 inputs of m rows to m scores."""
    _classes: ClassVar[Callable[..., Integers] | None] = None
    """Maps them to predicted classes, if these are not the model's."""
    _fitted: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take what it reads from its functions of rows, and what is searched and allowed from its settings."""
        super().__init_subclass__(**kwargs)
        of_rows = vars(cls).get("_rows_together", vars(cls).get("_rows"))
        if of_rows is not None and "inputs" not in vars(cls):
            cls.inputs = tuple(_INPUTS[name] for name in inspect.signature(of_rows).parameters if name in _INPUTS)
        if any(isinstance(value, dataclasses.Field) and "allowed" in value.metadata for value in vars(cls).values()):
            made: Any = dataclasses.dataclass(cls)
            settings = [of for of in dataclasses.fields(made) if "allowed" in of.metadata]
            cls.search = {of.name: of.metadata["search"] for of in settings if len(of.metadata["search"]) > 1}
            cls.ranges = {of.name: of.metadata["allowed"] for of in settings}

    def fit(self, features: Features | None = None, head: Head | None = None) -> Self:
        """See `Detector.fit`."""
        self._require_in_range()
        head = head if head is not None or features is None else features.head
        if self.reads_head:
            if head is None:
                raise EvaluationError(
                    f"{self.name} reads the model's last layer, found none. Give the head to fit, or leave it out for "
                    "a model whose logits are no linear layer's."
                )
            self._read_head(head)
        if self.fits_on != "none":
            if features is None:
                raise EvaluationError(f"{self.name} is fitted on rows of {self.fits_on}, found none. Give features.")
            arrays.require_labels(features, self.name)
            for name, values in self._read(features, self.inputs).items():
                arrays.require_finite(name, values, features.ids)
            self._learn(features)
        self._fitted = True
        return self

    def _require_in_range(self) -> None:
        """Refuse hyperparameters outside their ranges; None stands for one that is fitted."""
        defaults = inspect.signature(type(self)).parameters
        for name, allowed in self.ranges.items():
            value = getattr(self, name)
            in_range = isinstance(value, Real) and (
                not isinstance(allowed, ranges.Range) or allowed.allows(float(value))
            )
            if not in_range and not (value is None and defaults[name].default is None):
                raise EvaluationError(f"{name} of {self.name} must be {allowed}, found {value!r}; give another.")

    def _read_head(self, head: Head) -> None:
        """Take the last layer of the model."""
        self.matrix, self.bias = head.weight.astype(np.float64), head.bias.astype(np.float64)

    def _learn(self, features: Features) -> None:
        """Learn from labelled rows of the head's width."""

    def score(self, features: Features) -> Scores:
        """See `Detector.score`."""
        return self._score_rows(self._rows, features)

    def predict(self, features: Features) -> Integers:
        """See `Detector.predict`."""
        if self._classes is None:
            return super().predict(features)
        return self._score_rows(self._classes, features).astype(np.int64)

    def _require_fitted(self) -> None:
        if not self._fitted and (self.reads_head or self.fits_on != "none"):
            raise EvaluationError(f"{self.name} is not fitted. Call its method fit first.")

    def _score_rows(self, function: Callable[..., Any], features: Features, columns: tuple[int, ...] = ()) -> Any:
        self._require_fitted()
        inputs, at_once = self._inputs(features), self.at_once
        if at_once is None and self.inputs == (LOGITS,):
            at_once = max(1, min(arrays.ROWS, _CACHED // max(1, features.logits.shape[1])))
        return arrays.score_in_chunks(function, inputs, features.ids, columns, at_once)

    def _inputs(self, features: Features) -> dict[str, Floats]:
        """Return the matrices that are scored, by their name in errors."""
        return self._read(features, self.inputs)

    def _read(self, features: Features, names: Sequence[str]) -> dict[str, Floats]:
        matrices = {FEATURES: features.penultimate, LOGITS: features.logits}
        return {name: matrices[name] for name in names}


class Together(RowDetector):
    """A detector whose instances share most of their work: a search tries all of their hyperparameters at once."""

    _rows_together: ClassVar[Callable[..., Doubles]]
    """Maps several detectors and float64 inputs of m rows to scores, shape (m, detectors)."""

    def score(self, features: Features) -> Scores:
        """See `Detector.score`."""
        return self.score_together([self], features)[0]

    @staticmethod
    def score_together(detectors: Sequence[Any], features: Features) -> list[Scores]:
        """Score with several detectors of one class, fitted on the same rows, in little more than the time of one."""
        function = partial(detectors[0]._rows_together, detectors)
        return list(detectors[0]._score_rows(function, features, (len(detectors),)).T)
