"""Which detectors a run scores, and which hyperparameters it searches.

Tested by `tests/evaluation/detectors/test_own.py` and `tests/evaluation/detectors/test_settings.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.detectors.base import Detector
from unknown_detection.evaluation.detectors.own import Checked, Own
from unknown_detection.evaluation.errors import EvaluationError, one_line, require_known

Grid = Mapping[str, tuple[float, ...]]
"""By hyperparameter, the values to search among, the default first."""

Settings = Mapping[str, Mapping[str, Any]]
"""By detector and hyperparameter, one value, or several to search among, the default first."""


@dataclass(frozen=True)
class Choice:
    """A detector to score; `grid` has the hyperparameters that are searched, or set, and recorded."""

    detector: Detector
    grid: Grid


@dataclass(frozen=True)
class Choices:
    """The detectors of a run by name, and built-in `parts` whose scores they combine.

    `everything` says whether all detectors that can be used are meant, so that others are left out.
    """

    scored: Mapping[str, Choice]
    parts: Mapping[str, Choice]
    everything: bool

    def __getitem__(self, name: str) -> Choice:
        return self.scored.get(name) or self.parts[name]


def choose(detectors: str | Own | Iterable[str | Own] | None, settings: Settings | None = None) -> Choices:
    """Make an instance of each detector: of names (`NAME,NAME` stands for two), classes, instances and functions.

    None, or `all` among the names, stands for all that can be used. Hyperparameters of names and classes are searched
    or set by `settings`; those of instances stay. Detectors of the user's own are `Checked`.
    """
    scored: dict[str, Choice] = {}
    fixed: list[str] = []
    everything = detectors is None
    for given in [] if detectors is None else _listed(detectors):
        if isinstance(given, str):
            names = [name.strip() for name in given.split(",") if name.strip()]
            everything = everything or "all" in names
            names = [name for name in names if name != "all"]
            require_known("detector", names, DETECTORS)
            chosen, searched = [DETECTORS[name] for name in names], True
        else:
            detector, searched = _instance(given)
            chosen = [detector]
        for detector in chosen:
            choice = Choice(detector, detector.search if searched else _numbers(detector))
            if scored.setdefault(detector.name, choice).detector is not detector:
                raise EvaluationError(f"Two detectors have the name {detector.name}. Give one of them another.")
            fixed += [] if searched else [detector.name]
    if not scored and not everything:
        raise EvaluationError("No detector is named. Name some, such as msp,energy, or all of them by all.")
    if everything:
        scored = {name: Choice(detector, detector.search) for name, detector in DETECTORS.items()} | scored
    bases = {base for choice in scored.values() for base in choice.detector.base_methods} - {*scored}
    require_known("detector", sorted(bases), DETECTORS)
    parts = {name: Choice(DETECTORS[name], DETECTORS[name].search) for name in sorted(bases)}
    return _with_settings(Choices(scored, parts, everything), settings or {}, fixed)


def settable(detector: Detector) -> Grid:
    """Return a detector's hyperparameters with the values that a search tries, the default first.

    A hyperparameter that is not searched has its default only, or nothing if it is computed from the fitted rows.
    """
    values: dict[str, tuple[float, ...]] = {}
    for name, default in detector.parameters().items():
        if isinstance(default, int | float | None):
            values[name] = tuple(map(float, detector.search.get(name, () if default is None else (default,))))
    return values


def parse_settings(texts: Iterable[str]) -> Settings:
    """Parse `DETECTOR.NAME=VALUE` or `DETECTOR.NAME=VALUE,VALUE,...`."""
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
    return settings


def describe_settable() -> list[tuple[str, str]]:
    """Describe each hyperparameter that can be set: its name, and its default, range and searched values."""
    lines = []
    for detector in DETECTORS.values():
        for name, values in settable(detector).items():
            parts = [f"{values[0]:g}" if values else "fitted"]
            parts += [detector.ranges[name]] if name in detector.ranges else []
            parts += ["searched: " + ", ".join(f"{value:g}" for value in sorted(values))] if len(values) > 1 else []
            lines.append((f"{detector.name}.{name}", "; ".join(parts)))
    return lines


def _listed(detectors: Any) -> list[Any]:
    """Return one or several detectors as a list; those of a set are in the order of their texts, so in any run."""
    several = isinstance(detectors, Iterable) and not isinstance(detectors, str | type | Detector | Mapping)
    if not several or callable(detectors) or callable(getattr(detectors, "score", None)):
        return [detectors]
    return sorted(detectors, key=str) if isinstance(detectors, Set) else list(detectors)


def _instance(given: Any) -> tuple[Detector, bool]:
    """Return an instance for a detector that is not named, and whether its hyperparameters are searched."""
    built_in = {type(detector): detector for detector in DETECTORS.values()}
    if isinstance(given, type) and given in built_in:
        return built_in[given], True
    if isinstance(given, Checked):
        return given, given.searched
    if type(given) in built_in:
        return given, False
    checked = Checked(given)
    return checked, checked.searched


def _numbers(detector: Detector) -> Grid:
    """Return the hyperparameters of an instance that are numbers, for the record."""
    return {name: (value,) for name, value in detector.parameters().items() if isinstance(value, int | float)}


def _with_settings(choices: Choices, settings: Settings, fixed: list[str]) -> Choices:
    """Put settings into the grids of the detectors that they are of."""
    if not isinstance(settings, Mapping) or not all(isinstance(values, Mapping) for values in settings.values()):
        raise TypeError('Settings are values by detector and hyperparameter, such as {"knn": {"k": 50}}.')
    changed: dict[str, Choice] = {}
    for name, given in settings.items():
        used = {**choices.parts, **choices.scored}
        require_known("detector", [name], {**DETECTORS, **used})
        detector = used[name].detector if name in used else DETECTORS[name]
        grid = {parameter: _checked(detector, parameter, value) for parameter, value in given.items()}
        for text in (f"{name}.{parameter}" for parameter in grid):
            if name in fixed:
                raise EvaluationError(
                    f"{name} is an instance, whose hyperparameters stay. Set them there, and leave {text} out."
                )
            if name not in used:
                raise EvaluationError(f"{text} is of {name}, which is not scored. Add it to the detectors.")
            changed[name] = Choice(detector, {**used[name].grid, **grid})
    scored, parts = (
        {name: changed.get(name, choice) for name, choice in of.items()} for of in (choices.scored, choices.parts)
    )
    return Choices(scored, parts, choices.everything)


def _checked(detector: Detector, parameter: str, value: Any) -> tuple[float, ...]:
    """Return the values of one hyperparameter as numbers; refuse one that does not exist, and what is no number."""
    allowed = settable(detector)
    if not allowed:
        raise EvaluationError(f"{detector.name} has no hyperparameters. Leave {detector.name}.{parameter} out.")
    require_known(f"hyperparameter of {detector.name}", [parameter], allowed)
    listed = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    text = one_line(f"{detector.name}.{parameter}={','.join(map(str, listed))}")
    if not listed:
        raise EvaluationError(f"{text} has no value. Give one, or several to search among.")
    whole = isinstance(detector.parameters()[parameter], int)
    return tuple(_number(given, text, whole=whole) for given in listed)


def _number(given: Any, where: str, *, whole: bool) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or (whole and not value.is_integer()):
        kind = "a whole number" if whole else "a number"
        raise EvaluationError(f"{one_line(str(given))!r} in {where} is not {kind}. Give one.")
    return int(value) if whole else value
