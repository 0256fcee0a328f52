"""Detectors of the user's own: a `Method`, a function of features or a fitted detector, from a file or from Python.

What they return is checked; an error that their code raises is theirs, and keeps its traceback.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors.base import Detector, Method, PredictingDetector, Scores
from unknown_detection.evaluation.detectors.image_passes import Columns, ImagePass
from unknown_detection.evaluation.detectors.images import IMAGE_METHODS, ImageMethod
from unknown_detection.evaluation.detectors.registry import METHODS
from unknown_detection.evaluation.errors import EvaluationError, first_line, one_line, unknown_name
from unknown_detection.evaluation.models.features import Features, Head
from unknown_detection.evaluation.models.models import Model

Own = Method | Detector | Callable[[Features], npt.ArrayLike]
"""A method, a detector that needs no fitting, or a function that scores the rows of `Features`."""

_DIGITS = 16
"""Hexadecimal digits of an opaque id: 64 bits, so that two of ten million ids hardly ever collide."""

_ALONE = 3
"""Rows of each split that are scored a second time, without the others."""

_ROUNDING = 2 * 4096 * 2.0**-24
"""Difference of a row's two scores, relative to the split's greatest, that may be rounding: the bound for a sum of
4,096 float32 products, the features that AlexNet's and VGG's last layers read, in two orders (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd edition, section 3.1)."""

_NAME = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")


def load_own(spec: str) -> Method:
    """Load a detector from the user's file, whose code is run.

    Args:
        spec: `FILE.py:NAME`, with the name of an `Own` in that file.

    Raises:
        EvaluationError: there is no such file or name, the file is not Python, or the name is not that of a detector.
    """
    file, colon, name = spec.rpartition(":")
    path = Path(file)
    if not colon or path.suffix != ".py" or not name:
        raise EvaluationError(f"{one_line(spec)} does not name a detector; write FILE.py:NAME.")
    if not path.is_file():
        raise EvaluationError(f"There is no file {path} to load {one_line(name)} from; check the path.")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    module = types.ModuleType(f"_detectors_{digest[:16]}")
    module.__file__ = str(path)
    try:
        code = compile(content, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        raise EvaluationError(f"{path} is not a Python file: {first_line(error)}. Mend it.") from error
    sys.modules[module.__name__] = module  # dataclasses look their module up here
    # Not by importlib, which would leave a __pycache__ beside the user's file.
    exec(code, module.__dict__)
    if not hasattr(module, name):
        known = [each for each in vars(module) if not each.startswith("_")]
        raise unknown_name(f"name in {path}", name, known or ["none: the file defines nothing"])
    return own_method(getattr(module, name), name=name, source=path.name, digest=digest)


def own_method(found: Own, *, name: str = "", source: str = "the user's own", digest: str = "") -> Method:
    """Return the user's method, or a method made of a function or detector, with checks of what it returns.

    Args:
        found: what the user gives.
        name: name of a function or detector; empty for the function's own.
        source: where it comes from, for results.
        digest: SHA-256 of its file; empty if there is none.

    Raises:
        EvaluationError: it is none of these, its name cannot be one or is that of a built-in method, or it reads
            images without the pass that `ImageMethod` has.
    """
    if not isinstance(found, Method):
        name = name or getattr(found, "__name__", type(found).__name__)
        found = Method(name, name, source, _maker(found, name))
    found = dataclasses.replace(found, make=_Make(found), digest=digest)
    if isinstance(found, ImageMethod) and found.image_pass not in (each.image_pass for each in IMAGE_METHODS.values()):
        found = dataclasses.replace(found, image_pass=_with_opaque_ids(found.image_pass))
    if found.score_together is not None:
        found = dataclasses.replace(found, score_together=_checked_together(found))
    if not _NAME.fullmatch(found.name) or found.name == "all":
        raise EvaluationError(
            f"{one_line(found.name)!r} cannot be the name of a detector. Name it with letters, digits, underscores "
            "and hyphens."
        )
    if found.name in METHODS:
        raise EvaluationError(f"{found.name} is the name of a built-in detector. Give yours another name.")
    if found.reads == "images" and not isinstance(found, ImageMethod):
        raise EvaluationError(f"{found.name} reads images but has no pass over them. Make it an ImageMethod.")
    return found


def choose(detectors: Sequence[str | Own] | None) -> tuple[list[str] | None, dict[str, Method]]:
    """Divide detectors into names, with those of the user's own among them, and the user's own by name.

    Raises:
        EvaluationError: two have one name, or as for `own_method`.
    """
    if detectors is None:
        return None, {}
    names, own = [], {}
    for given in detectors:
        if isinstance(given, str):
            names.append(given)
            continue
        # What `load_own` returns is checked already.
        method = given if isinstance(given, Method) and isinstance(given.make, _Make) else own_method(given)
        if method.name in own:
            raise EvaluationError(f"Two detectors have the name {method.name}. Give one of them another.")
        own[method.name] = method
        names.append(method.name)
    return names, own


def _maker(found: Any, name: str) -> Callable[..., Detector]:
    """Return the `make` of a function, or of a detector that needs no fitting."""
    if isinstance(found, type) or not (callable(found) or callable(getattr(found, "score", None))):
        raise EvaluationError(
            f"{one_line(name)} is {one_line(type(found).__name__)}, not a detector. Make it a Method, or a function "
            "that returns the scores of features."
        )
    detector = found if callable(getattr(found, "score", None)) else types.SimpleNamespace(score=found)
    return lambda features, head: detector


class _Make:
    """Calls a method's `make`, whose signature it keeps, and checks what it returns."""

    def __init__(self, method: Method) -> None:
        self._method = method
        functools.update_wrapper(self, method.make)

    def __call__(self, features: Features | None, head: Head | None, **hyperparameters: Any) -> _Checked:
        detector = self._method.make(features, head, **hyperparameters)
        if not callable(getattr(detector, "score", None)):
            raise EvaluationError(
                f"{self._method.name} makes {one_line(type(detector).__name__)}, which has no method score. Return a "
                "detector."
            )
        return (_Predicting if isinstance(detector, PredictingDetector) else _Checked)(self._method.name, detector)


def _checked_together(method: Method) -> Callable[[Sequence[_Checked], Features], list[Scores]]:
    together = method.score_together
    assert together is not None

    def score(detectors: Sequence[_Checked], features: Features) -> list[Scores]:
        theirs = [each.detector for each in detectors]
        return _scores_of(method.name, lambda rows: together(theirs, rows), features)

    return score


@dataclass(frozen=True)
class _Checked:
    """A detector of the user's own."""

    name: str
    detector: Any

    def score(self, features: Features) -> Scores:
        return _scores_of(self.name, lambda rows: [self.detector.score(rows)], features)[0]


@dataclass(frozen=True)
class _Predicting(_Checked):
    """A detector of the user's own that predicts classes."""

    def predict(self, features: Features) -> npt.NDArray[np.int64]:
        predicted = self.detector.predict(_opaque(features))
        return _column(f"{self.name}'s predict", predicted, features, "iu").astype(np.int64)


def _opaque(features: Features) -> Features:
    """Replace ids, which may name a row's split and class, by hashes."""
    return dataclasses.replace(features, ids=_opaque_ids(features.ids.tolist()))


def _opaque_ids(ids: Sequence[str]) -> npt.NDArray[np.str_]:
    hashes = [hashlib.sha256(f"opaque\t{id_}".encode()).hexdigest()[:_DIGITS] for id_ in ids]
    return np.array(hashes, dtype=f"<U{_DIGITS}")


def _with_opaque_ids(image_pass: ImagePass) -> ImagePass:
    run = image_pass.run

    def opaque(model: Model, images: Any, ids: Sequence[str], **given: Any) -> Columns:
        return run(model, images, _opaque_ids(ids).tolist(), **given)

    return dataclasses.replace(image_pass, run=opaque)


def _scores_of(name: str, score: Callable[[Features], Sequence[object]], features: Features) -> list[Scores]:
    """Score rows by one or several detectors, and again a few rows alone, in another order.

    Raises:
        EvaluationError: what is returned is not a score for each row, or a row has another score alone.
    """
    found = [_scores(name, values, features) for values in score(_opaque(features))]
    count = len(features)
    if not count:
        return found
    few = np.array([count - 1, count // 2, 0] if count > _ALONE else [count - 1])
    chosen = features.take(few)
    for scores, values in zip(found, score(_opaque(chosen)), strict=True):
        alone = _column(name, values, chosen, "fiu").astype(np.float64)
        close = np.abs(alone - scores[few]) <= _ROUNDING * np.abs(scores).max()
        if not close.all():
            first = int(np.argmin(close))
            raise EvaluationError(
                f"{name} gives {str(chosen.ids[first])!r} the score {scores[few[first]]:g} among {count:,} rows and "
                f"{alone[first]:g} among {len(few)}. Mend the detector: a score may depend on its own row only."
            )
    return found


def _scores(name: str, returned: object, features: Features) -> Scores:
    values = _column(name, returned, features, "fiu").astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        raise EvaluationError(
            f"{name} gives {np.count_nonzero(~finite):,} of {len(values):,} rows a score that is NaN or infinite, "
            f"the first {str(features.ids[np.argmin(finite)])!r}. Mend the detector: no metric can rank such rows."
        )
    return values


def _column(name: str, returned: Any, features: Features, kinds: str) -> npt.NDArray[Any]:
    """Return what a detector returned as one number per row."""
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
        wanted = "real number" if "f" in kinds else "integer"
        raise EvaluationError(
            f"{name} returned {one_line(type(returned).__name__)} of shape {values.shape} and type {values.dtype} for "
            f"{len(features):,} rows. Return an array of one {wanted} per row."
        )
    return values
