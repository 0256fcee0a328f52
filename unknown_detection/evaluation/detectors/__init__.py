"""Detectors: classes whose instances score rows; higher scores mean more unknown.

Each declares what it is fitted on and what a search tries, takes its hyperparameters, and has `fit` and `score`:

    >>> from unknown_detection.evaluation import detectors
    >>> detectors.KNN.fits_on, detectors.KNN(k=5).k
    ('train', 5)

`table()` describes all of them, and `METHODS` has them by the names of the command line. The base classes of one's own
are `Detector`, `RowDetector`, which checks and divides the rows, and `ImageDetector`, which runs the model again.

Tested by `tests/evaluation/detectors/test_registry.py` and `tests/evaluation/detectors/test_settings.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from unknown_detection.evaluation.detectors import (
    images,
    learned,
    logits,
    mahalanobis,
    neighbors,
    openmax,
    penultimate,
    shaping,
)
from unknown_detection.evaluation.detectors.base import Detector, RowDetector
from unknown_detection.evaluation.detectors.images import (
    ODIN,
    CADet,
    ImageDetector,
    ImagePass,
    MCDropout,
    MCDropoutMI,
    ODINMaxLogit,
    RankFeat,
)
from unknown_detection.evaluation.detectors.learned import OODL, EnsF, EnsR, EnsV
from unknown_detection.evaluation.detectors.logits import (
    GEN,
    MSP,
    DeepEnsemble,
    Doctor,
    Energy,
    Entropy,
    KLMatching,
    LogitNorm,
    Margin,
    MaxLogit,
    MutualInformation,
    Temperature,
)
from unknown_detection.evaluation.detectors.mahalanobis import (
    RMDS,
    Mahalanobis,
    MahalanobisAll,
    MahalanobisFirst,
    MahalanobisLogits,
)
from unknown_detection.evaluation.detectors.neighbors import KNN, NNGuide, Relation
from unknown_detection.evaluation.detectors.openmax import OpenMax
from unknown_detection.evaluation.detectors.penultimate import FDBD, SHE, GradNorm, Residual, ViM
from unknown_detection.evaluation.detectors.shaping import ASH, ASHB, ASHP, DICE, SCALE, ReAct
from unknown_detection.evaluation.errors import EvaluationError, one_line, require_known

__all__ = [
    "ASH", "ASHB", "ASHP", "DICE", "FDBD", "GEN", "KNN", "METHODS", "MSP", "ODIN", "OODL", "RMDS", "SCALE", "SHE",
    "CADet", "DeepEnsemble", "Detector", "Doctor", "Energy", "EnsF", "EnsR", "EnsV", "Entropy", "GradNorm",
    "ImageDetector", "ImagePass", "KLMatching", "LogitNorm", "MCDropout", "MCDropoutMI", "Mahalanobis",
    "MahalanobisAll", "MahalanobisFirst", "MahalanobisLogits", "Margin", "MaxLogit", "MutualInformation", "NNGuide",
    "ODINMaxLogit", "OpenMax", "RankFeat", "ReAct", "Relation", "Residual", "RowDetector", "Temperature", "ViM",
    "table",
]  # fmt: skip


def __dir__() -> list[str]:
    """List what one chooses from and builds on, and none of what this module imports for itself."""
    return [*__all__]


_FAMILIES = (logits, images, openmax, shaping, penultimate, neighbors, mahalanobis, learned)

Methods = Mapping[str, type[Detector]]
"""Classes of detectors by their names."""

METHODS: Methods = {
    kind.name: kind
    for family in _FAMILIES
    for kind in vars(family).values()
    if isinstance(kind, type) and issubclass(kind, Detector) and kind.name and kind.__module__ == family.__name__
}
"""The class of each detector by its name, in the order of the families' modules and within them."""

Settings = Mapping[str, Mapping[str, tuple[float, ...]]]
"""By detector and hyperparameter, the values to search among, the default first."""

_READS = {"features": "one pass", "members": "several models", "images": "a second pass over the images"}


def find_method(name: str, chosen: Methods | None = None) -> type[Detector]:
    """Return the class of a detector by its name, among the `chosen` ones (`own.choose`) or else built in."""
    methods = {**METHODS, **(chosen or {})}
    require_known("detector", [name], methods)
    return methods[name]


def table() -> list[dict[str, str]]:
    """Describe every detector: its name, class, title, paper, what it needs and what it is fitted on, in words."""
    return [
        {
            "name": kind.name,
            "class": kind.__name__,
            "title": kind.title,
            "paper": kind.source,
            "needs": ", ".join([_READS[kind.reads], *(["the last layer"] if kind.reads_head else []), *kind.requires])
            + (f"; the scores of {', '.join(kind.base_methods)}" if kind.base_methods else ""),
            "fitted on": "" if kind.fits_on == "none" else kind.fits_on,
            "searched": ", ".join(kind.search),
        }
        for kind in METHODS.values()
    ]


def settable(method: type[Detector]) -> dict[str, tuple[float, ...]]:
    """Return a detector's hyperparameters with the values that a search tries, the default first.

    A hyperparameter that is not searched has its default only, or nothing if it is computed from the fitted rows.
    """
    values = {}
    for name, default in method.parameters().items():
        if isinstance(default, int | float | None):
            values[name] = tuple(map(float, method.search.get(name, () if default is None else (default,))))
    return values


def parse_settings(texts: Iterable[str], chosen: Methods) -> Settings:
    """Parse `DETECTOR.NAME=VALUE` or `DETECTOR.NAME=VALUE,VALUE,...`, of the chosen detectors and of their parts."""
    settings: dict[str, dict[str, list[str]]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        detector, dot, name = key.strip().partition(".")
        if not equals or not dot:
            raise EvaluationError(
                f"--set {one_line(text)} does not name a hyperparameter and a value. Write it as in --set knn.k=50."
            )
        if name in settings.setdefault(detector, {}):
            raise EvaluationError(f"--set gives {detector}.{name} twice. Write several values to search as A,B,C.")
        settings[detector][name] = values.split(",")
    return check_settings(settings, chosen, "--set ", "--detectors")


def check_settings(
    settings: Mapping[str, Mapping[str, Any]], chosen: Methods, prefix: str = "setting ", where: str = "detectors="
) -> Settings:
    """Return settings of the chosen detectors and of their parts as numbers, each one value or several to search.

    `prefix` stands before a setting in errors, and `where` says where detectors are chosen.
    """
    if not isinstance(settings, Mapping) or not all(isinstance(values, Mapping) for values in settings.values()):
        raise TypeError('Settings are values by detector and hyperparameter, such as {"knn": {"k": 50}}.')
    scored = {*chosen, *(base for method in chosen.values() for base in method.base_methods)}
    checked: dict[str, dict[str, tuple[float, ...]]] = {}
    for detector, given in settings.items():
        method = find_method(detector, chosen)
        hyperparameters = settable(method)
        for name, values in given.items():
            listed = list(values) if isinstance(values, list | tuple | np.ndarray) else [values]
            text = prefix + one_line(f"{detector}.{name}={','.join(map(str, listed))}")
            if method.fixed:
                raise EvaluationError(
                    f"{detector} is an instance, whose hyperparameters stay. Set {name} there, and leave {text} out."
                )
            if not hyperparameters:
                raise EvaluationError(f"{detector} has no hyperparameters. Leave {text} out.")
            require_known(f"hyperparameter of {detector}", [name], hyperparameters)
            if detector not in scored:
                raise EvaluationError(f"{text} is of {detector}, which is not scored. Add it to {where}.")
            whole = isinstance(method.parameters()[name], int)
            numbers = tuple(_number(value, text, whole) for value in listed)
            if not numbers:
                raise EvaluationError(f"{text} has no value. Give one, or several to search among.")
            checked.setdefault(detector, {})[name] = numbers
    return checked


def describe_settable() -> list[tuple[str, str]]:
    """Describe each hyperparameter that can be set: its name, and its default, range and searched values."""
    lines = []
    for method in METHODS.values():
        for name, (*values,) in settable(method).items():
            parts = [f"{values[0]:g}" if values else "fitted"]
            parts += [method.ranges[name]] if name in method.ranges else []
            parts += ["searched: " + ", ".join(f"{value:g}" for value in sorted(values))] if len(values) > 1 else []
            lines.append((f"{method.name}.{name}", "; ".join(parts)))
    return lines


def _number(given: Any, where: str, whole: bool) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or (whole and not value.is_integer()):
        kind = "a whole number" if whole else "a number"
        raise EvaluationError(f"{one_line(str(given))!r} in {where} is not {kind}. Give one.")
    return int(value) if whole else value
