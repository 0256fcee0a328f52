"""Detectors of the user's own: a class, an instance, or a function of features, from a file or from Python.

What they return is checked; an error that their code raises is theirs, and keeps its traceback (`OwnError`).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any, ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.detectors.base import ChosenBy, Detector, Fit, Reads, Scores
from unknown_detection.evaluation.errors import (
    EvaluationError,
    a_kind,
    one_line,
    require_kinds,
    require_known,
    require_name,
)
from unknown_detection.evaluation.files import load_python
from unknown_detection.evaluation.models.features import Features, Integers, read_only

Own = type[Detector] | Detector | Callable[[Features], npt.ArrayLike]
"""A class, which is searched; an instance, whose hyperparameters are taken as they are; or a function that scores the
rows of `Features`, or an object with a method `score` that does."""

_DIGITS = 16
"""Hexadecimal digits of an opaque id: 64 bits, so that two of ten million ids hardly ever collide."""

_ALONE = 3
"""Rows of each split that are scored a second time, without the others."""

_ROUNDING = 2 * 4096 * 2.0**-24
"""Difference of a row's two scores, relative to their size (`_size`), that may be rounding: the bound for a sum of
4,096 float32 products, the features that AlexNet's and VGG's last layers read, in two orders (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, section 3.1)."""

_DECLARED = Detector.__annotations__.keys() - {"name", "digest", "remark"}
"""What a detector says of itself, besides its name."""


class OwnError(Exception):
    """Any error that the code of a user's detector or model raised, which is its cause."""


@contextlib.contextmanager
def of_the_user(name: str) -> Iterator[None]:
    """Tell errors that the code of a user's detector or model raises within the block from those of ours."""
    try:
        yield
    except EvaluationError:
        raise
    except (Exception, SystemExit) as error:
        said = one_line(f"{type(error).__name__}: {error}".removesuffix(": "), 200)
        raise OwnError(f"{name} raised {said}. Mend it, or leave it out.") from error


def load_own(spec: str) -> Checked:
    """Load a detector, an `Own`, from the user's file, whose code is run: `FILE.py:NAME`."""
    own, name, path, digest = load_python(spec, "detector")
    return Checked(own, name=name, source=path.name, digest=digest)


class Checked(Detector):
    """Runs a user's own detector, and checks that it does what a detector must.

    It gets read-only arrays, and of rows to score neither ids nor labels: hashes stand for ids. This guards against
    accidents, such as a score that depends on a row's place or changes others' features in place, not against code
    that looks for the caller's variables. Scores and predictions are one finite number per row, and a few rows that
    are scored alone must have the scores that they have among all. Each time a shallow copy scores, so that nothing
    which it keeps of a split is there for the next one.

    Args:
        own: a class of detectors, an instance, a function of features, or an object with a method `score`.
        name: its name where it has none of its own.
        source: where it comes from, for results.
        digest: SHA-256 of the file that defines it.
    """

    fits_on: ClassVar[Fit] = "none"  # of a function; its own `fit` only hands on

    def __init__(self, own: Any, name: str = "", source: str = "the user's own", digest: str = "") -> None:
        name = getattr(own, "name", "") or name or getattr(own, "__name__", type(own).__name__)
        self.own: Any = _made(own, str(name))
        name = getattr(self.own, "name", "") or name  # of a class, what its instance is called
        fitted = {"fits_on": "train"} if callable(getattr(self.own, "fit", None)) else {}
        vars(self).update(fitted | {key: getattr(self.own, key) for key in _DECLARED if hasattr(self.own, key)})
        self.name, self.title, self.source = name, self.title or name, self.source or source
        self.digest = digest
        self._require_usable()
        if not isinstance(own, type):
            vars(self)["search"] = {}  # an instance is not searched

    def fit(self, features: Any, head: Any = None) -> Self:
        """See `Detector.fit`; the user's `fit` takes the features, and the head if it has a second parameter."""
        fit = getattr(self.own, "fit", None)
        if fit is not None:
            rows = read_only(features if head is None else dataclasses.replace(features, head=head))
            kinds = [of.kind for of in inspect.signature(fit).parameters.values()]
            several = sum(kind <= inspect.Parameter.VAR_POSITIONAL for kind in kinds) > 1
            with of_the_user(self.name):
                fit(rows, rows.head) if several else fit(rows)
        self.remark = str(getattr(self.own, "remark", ""))
        return self

    def score(self, features: Features) -> Scores:
        """See `Detector.score`."""

        def score(rows: Features) -> object:
            with of_the_user(self.name):
                own = copy.copy(self.own)
                return getattr(own, "score", own)(rows)

        return _scores_of(self.name, score, features)

    def predict(self, features: Features) -> Integers:
        """See `Detector.predict`."""
        if not hasattr(self.own, "predict"):
            return super().predict(features)
        with of_the_user(self.name):
            predicted = copy.copy(self.own).predict(_to_score(features))
        return _column(f"predict of {self.name}", predicted, features, "iu").astype(np.int64)

    def parameters(self) -> dict[str, Any]:
        """See `Detector.parameters`."""
        return self.own.parameters() if isinstance(self.own, Detector) else {}

    def clone(self, **values: Any) -> Self:
        """See `Detector.clone`."""
        copied = super().clone()
        if isinstance(self.own, Detector):
            copied.own = self.own.clone(**values)
        return copied

    def arguments(self) -> dict[str, Any]:
        """See `Detector.arguments`."""
        return self.own.arguments() if isinstance(self.own, Detector) else {}

    def _require_usable(self) -> None:
        """Refuse a name or a declaration that no run could use."""
        name = self.name
        require_name("detector", name)
        if name in DETECTORS:
            raise EvaluationError(f"{name} is the name of a built-in detector. Give yours another name.")
        require_kinds(self, name, {"search": Mapping, "requires": list | tuple, "base_methods": list | tuple})
        for attribute, allowed in (("fits_on", Fit), ("reads", Reads), ("chosen_by", ChosenBy)):
            require_known(f"value for {attribute} of {name}", [getattr(self, attribute)], get_args(allowed))
        require_known(f"hyperparameter of {name} to search", self.search, self.parameters())
        for parameter, values in self.search.items():
            listed = isinstance(values, list | tuple | np.ndarray) and len(values) > 0
            if not listed or not all(isinstance(value, Real) for value in values):
                raise EvaluationError(
                    f"The search of {name} tries {one_line(repr(values))} for {parameter}. List numbers, or leave it "
                    "out: other hyperparameters are set in an instance."
                )


def _made(own: Any, name: str) -> Any:
    """Return an instance of a class of detectors; any other object that scores, as it is."""
    score = getattr(own, "score", None)
    if not callable(score) and (isinstance(own, type) or not callable(own)):
        shown = repr(own) if name == type(own).__name__ else name
        raise EvaluationError(
            f"{one_line(shown, 60)} is {a_kind(own)}, not a detector. Give a detector's name, a function that returns "
            "the scores of features, or a class or an object with a method score that does."
        )
    if not isinstance(own, type):
        return own
    with of_the_user(name):  # Python says which default or method is missing
        return own()


def _to_score(features: Features) -> Features:
    """Return read-only features with hashes in place of the ids, which may name a row's split and class."""
    hashes = [hashlib.sha256(f"opaque\t{id_}".encode()).hexdigest()[:_DIGITS] for id_ in features.ids.tolist()]
    return read_only(dataclasses.replace(features, ids=np.array(hashes, dtype=f"<U{_DIGITS}")).unlabelled())


def _scores_of(name: str, score: Callable[[Features], object], features: Features) -> Scores:
    """Score rows, and check the scores of a few rows by scoring these alone."""
    scores, count = _column(name, score(_to_score(features)), features, "fiu").astype(np.float64), len(features)
    finite = np.isfinite(scores)
    if not finite.all():
        raise EvaluationError(
            f"{name} gives {np.count_nonzero(~finite):,} of {count:,} rows a score that is NaN or infinite, the first "
            f"{str(features.ids[np.argmin(finite)])!r}. Mend the detector: no metric can rank such rows."
        )
    if not count:
        return scores
    places = np.array([count - 1, count // 2, 0] if count > _ALONE else [count - 1])
    sample = features.take(places)
    alone = _column(name, score(_to_score(sample)), sample, "fiu").astype(np.float64)
    close = np.abs(alone - scores[places]) <= _ROUNDING * _size(scores, places)
    if not close.all():
        first = int(np.argmin(close))
        raise EvaluationError(
            f"{name} gives {str(sample.ids[first])!r} the score {scores[places[first]]:g} among {count:,} rows and "
            f"{alone[first]:g} among {len(places)}. Mend the detector: a score may depend on its own row only."
        )
    return scores


def _size(scores: Scores, places: Integers) -> Scores:
    """Return how large the terms of some rows' scores may be: the scores themselves, or those of nine rows in ten.

    Not the greatest of all: beside one outlier, any dependence on other rows would be rounding.
    """
    sizes = np.abs(scores)
    return np.maximum(sizes[places], np.quantile(sizes, 0.9))


def _column(name: str, returned: Any, features: Features, kinds: str) -> npt.NDArray[Any]:
    """Return a detector's result as an array of one number per row; refuse other results."""
    if np.ma.is_masked(returned):
        masked = np.count_nonzero(np.ma.getmaskarray(returned))
        raise EvaluationError(
            f"{name} returned an array that is masked in {masked:,} of {len(features):,} rows. Return a number for "
            "every row."
        )
    try:
        values = np.asarray(returned)
    except (RuntimeError, TypeError, ValueError):  # lists of several lengths; tensors on a GPU or with a gradient
        values = np.asarray(None)
    if values.shape != (len(features),) or values.dtype.kind not in kinds:
        number = "real number" if "f" in kinds else "integer"
        raise EvaluationError(
            f"{name} returned {one_line(type(returned).__name__)} of shape {values.shape} and type {values.dtype} for "
            f"{len(features):,} rows. Return an array of one {number} per row."
        )
    return values
