"""Detectors of the user's own: a class, an instance, or a function of features, from a file or from Python.

What they return is checked; an error that their code raises is theirs, and keeps its traceback.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import METHODS, Methods, find_method
from unknown_detection.evaluation.detectors.base import ChosenBy, Detector, Fit, Reads, Scores
from unknown_detection.evaluation.errors import EvaluationError, a_kind, one_line, require_known
from unknown_detection.evaluation.files import load_python
from unknown_detection.evaluation.models.features import Features, Head, read_only

Own = type[Detector] | Detector | Callable[[Features], npt.ArrayLike]
"""A class, which is searched; an instance, whose hyperparameters are taken as they are; or a function that scores the
rows of `Features`, or an object with a method `score` that does."""

_DIGITS = 16
"""Hexadecimal digits of an opaque id: 64 bits, so that two of ten million ids hardly ever collide."""

_ALONE = 3
"""Rows of each split that are scored a second time, without the others."""

_ROUNDING = 2 * 4096 * 2.0**-24
"""Difference of a row's two scores, relative to the split's greatest, that may be rounding: the bound for a sum of
4,096 float32 products, the features that AlexNet's and VGG's last layers read, in two orders (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, section 3.1)."""

_NAME = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")


def load_own(spec: str) -> type[Detector]:
    """Load a detector from the user's file, whose code is run: `FILE.py:NAME`, with the name of an `Own` in it."""
    own, name, path, digest = load_python(spec, "detector")
    return own_method(own, name=name, source=path.name, digest=digest)


def own_method(own: Own, *, name: str = "", source: str = "the user's own", digest: str = "") -> type[Detector]:
    """Return a class that checks the scores of the user's class, instance, function or object with `score`.

    Without a name of its own it gets `name`; results have `source`, where it comes from, and the digest of its file.
    """
    name = getattr(own, "name", "") or name or getattr(own, "__name__", type(own).__name__)
    if isinstance(own, Detector):
        kind = _fixed(own)
    else:
        kind = own if isinstance(own, type) and issubclass(own, Detector) else _scoring_as(own, name)
    if not _NAME.fullmatch(name) or name == "all":
        raise EvaluationError(
            f"{one_line(name)!r} cannot be the name of a detector. Name it with letters, digits, underscores and "
            "hyphens."
        )
    if name in METHODS:
        raise EvaluationError(f"{name} is the name of a built-in detector. Give yours another name.")
    if kind.score is Detector.score:
        raise EvaluationError(f"{name} has no method score. Write one that returns the scores of features.")
    for parameter, default in kind.parameters().items():
        if default is inspect.Parameter.empty:
            raise EvaluationError(f"The hyperparameter {parameter} of {name} has no default. Give it one.")
    for attribute, allowed in (("fits_on", Fit), ("reads", Reads), ("chosen_by", ChosenBy)):
        require_known(f"value for {attribute} of {name}", [getattr(kind, attribute)], get_args(allowed))
    require_known(f"hyperparameter of {name} to search", kind.search, kind.parameters())
    for parameter, values in kind.search.items():
        if not all(isinstance(value, Real) for value in values) or not values:
            raise EvaluationError(
                f"The search of {name} tries {one_line(repr(values))} for {parameter}. List numbers, or leave it out: "
                "other hyperparameters are set in an instance."
            )
    declared = {"name": name, "title": kind.title or name, "source": kind.source or source, "digest": digest}
    return _checked(kind, declared)


def choose(detectors: str | Own | Iterable[str | Own] | None) -> tuple[Methods, bool]:
    """Return the classes of detectors by name, and whether all that can be used are meant: by None, or by `all`.

    `NAME,NAME` stands for two. Classes of the user's own check their scores, and an instance's hyperparameters stay.
    """
    methods: dict[str, type[Detector]] = {}
    everything = detectors is None
    for detector in [] if detectors is None else _listed(detectors):
        if isinstance(detector, str):
            names = [name.strip() for name in detector.split(",") if name.strip()]
            everything = everything or "all" in names
            kinds = [find_method(name) for name in names if name != "all"]
        else:
            kinds = [_kind_of(detector)]
        for kind in kinds:
            if methods.setdefault(kind.name, kind) is not kind:
                raise EvaluationError(f"Two detectors have the name {kind.name}. Give one of them another.")
    if not methods and not everything:
        raise EvaluationError("No detector is named. Name some, such as msp,energy, or all of them by all.")
    return ({**METHODS, **methods} if everything else methods), everything


def _listed(detectors: Any) -> list[Any]:
    """Return one or several detectors as a list; those of a set are in the order of their texts, so in any run."""
    several = isinstance(detectors, Iterable) and not isinstance(detectors, str | type | Detector | Mapping)
    if not several or callable(detectors) or callable(getattr(detectors, "score", None)):
        return [detectors]
    return sorted(detectors, key=str) if isinstance(detectors, Set) else list(detectors)


def _kind_of(detector: Any) -> type[Detector]:
    """Return the class of a detector that is given itself, not by its name."""
    kind = detector if isinstance(detector, type) else type(detector)
    if kind in METHODS.values():
        return _fixed(detector) if isinstance(detector, Detector) else kind
    return kind if issubclass(kind, _OfTheUser) else own_method(detector)  # `load_own` returns what is checked already


def _fixed(detector: Detector) -> type[Detector]:
    """Return a class whose instances are copies of a detector, and whose search tries its hyperparameters only."""
    kind = type(detector)
    values = {name: getattr(detector, name, inspect.Parameter.empty) for name in kind.parameters()}
    for name, value in values.items():
        if value is inspect.Parameter.empty:
            raise EvaluationError(
                f"{kind.__name__} does not keep its hyperparameter {name}. Set self.{name} in its __init__."
            )
    values = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}

    @functools.wraps(kind.__init__)  # whether it has a seed is seen by its parameters
    def copied(self: Any, **given: float) -> None:
        vars(self).update(copy.deepcopy(vars(detector)) | given)

    body = {"name": detector.name, "__init__": copied, "parameters": classmethod(lambda cls: values), "fixed": True}
    numbers = {name: (value,) for name, value in values.items() if isinstance(value, int | float)}
    return type(kind.__name__, (kind,), body | {"search": numbers})


def _scoring_as(scorer: Any, name: str) -> type[Detector]:
    """Return a detector's class for a function that scores, or for an object with `score` that needs no fitting."""
    if isinstance(scorer, type) or not (callable(scorer) or callable(getattr(scorer, "score", None))):
        shown = repr(scorer) if name == type(scorer).__name__ else name
        raise EvaluationError(
            f"{one_line(shown, 60)} is {a_kind(scorer)}, not a detector. Give a detector's name, a subclass of "
            "Detector, or a function that returns the scores of features."
        )
    score = scorer.score if callable(getattr(scorer, "score", None)) else scorer
    methods = {"score": lambda self, features: score(features)}
    if callable(getattr(scorer, "predict", None)):
        methods["predict"] = lambda self, features: scorer.predict(features)
    return type(name, (Detector,), methods)


class _OfTheUser(Detector):
    """Marks classes whose scores are checked."""


def _checked(kind: type[Detector], declared: Mapping[str, object]) -> type[Detector]:
    """Return a subclass that gets read-only arrays, hides scored rows' ids, and checks the scores and predictions."""
    name = str(declared["name"])

    def fit(self: Any, features: Features | None, head: Head | None = None) -> Any:
        kind.fit(self, features and read_only(features), head and read_only(head))
        return self

    def score(self: Any, features: Features) -> Scores:
        return _scores_of(name, lambda rows: [kind.score(self, rows)], features)[0]

    def predict(self: Any, features: Features) -> npt.NDArray[np.int64]:
        predicted = kind.predict(self, _to_score(features))
        return _column(f"{name}'s predict", predicted, features, "iu").astype(np.int64)

    def score_together(detectors: Sequence[Any], features: Features) -> list[Scores]:
        return _scores_of(name, lambda rows: kind.score_together(detectors, rows), features)

    body = {**declared, "fit": fit, "score": score, "__doc__": kind.__doc__}
    if kind.predict is not Detector.predict:
        body["predict"] = predict
    if kind.score_together is not Detector.score_together:
        body["score_together"] = staticmethod(score_together)
    return type(kind.__name__, (kind, _OfTheUser), body)


def _to_score(features: Features) -> Features:
    """Return read-only features with hashes in place of the ids, which may name a row's split and class."""
    hashes = [hashlib.sha256(f"opaque\t{id_}".encode()).hexdigest()[:_DIGITS] for id_ in features.ids.tolist()]
    return read_only(dataclasses.replace(features, ids=np.array(hashes, dtype=f"<U{_DIGITS}")))


def _scores_of(name: str, score: Callable[[Features], Sequence[object]], features: Features) -> list[Scores]:
    """Score rows by one or several detectors, and check the scores of a few rows by scoring these alone."""
    scores_of_all = []
    for returned in score(_to_score(features)):
        values = _column(name, returned, features, "fiu").astype(np.float64)
        finite = np.isfinite(values)
        if not finite.all():
            raise EvaluationError(
                f"{name} gives {np.count_nonzero(~finite):,} of {len(values):,} rows a score that is NaN or infinite, "
                f"the first {str(features.ids[np.argmin(finite)])!r}. Mend the detector: no metric can rank such rows."
            )
        scores_of_all.append(values)
    count = len(features)
    if not count:
        return scores_of_all
    places = np.array([count - 1, count // 2, 0] if count > _ALONE else [count - 1])
    sample = features.take(places)
    for scores, returned in zip(scores_of_all, score(_to_score(sample)), strict=True):
        alone = _column(name, returned, sample, "fiu").astype(np.float64)
        close = np.abs(alone - scores[places]) <= _ROUNDING * np.abs(scores).max()
        if not close.all():
            first = int(np.argmin(close))
            raise EvaluationError(
                f"{name} gives {str(sample.ids[first])!r} the score {scores[places[first]]:g} among {count:,} rows "
                f"and {alone[first]:g} among {len(places)}. Mend the detector: a score may depend on its own row only."
            )
    return scores_of_all


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
