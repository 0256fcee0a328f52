"""Chooses the detectors of a run, makes an instance of each, and parses which hyperparameters a run sets or searches.

Tested by `tests/evaluation/detectors/test_own.py` and `tests/evaluation/detectors/test_settings.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.detectors.base import Detector
from unknown_detection.evaluation.detectors.own import Checked, Own
from unknown_detection.evaluation.detectors.text import ADAPTING
from unknown_detection.evaluation.errors import EvaluationError, find_name, one_line, require_known

Settings = Mapping[str, Mapping[str, Any]]
"""By detector and hyperparameter, one value, or several to search among, the default first."""


class Chosen(NamedTuple):
    """The detectors of a run: those to score by name, and built-in `parts` whose scores they combine.

    What a search tries is each one's `search`; `everything` says whether all that can be used are meant, so that
    others are left out.
    """

    scored: Mapping[str, Detector]
    parts: Mapping[str, Detector]
    everything: bool


def choose(detectors: str | Own | Iterable[str | Own] | None, settings: Settings | None = None) -> Chosen:
    """Make an instance of each chosen detector: a name (`NAME,NAME` names two), a class, an instance or a function.

    None, or `all` among the names, stands for all that can be used. `settings` are searched in place of a detector's
    own lists; an instance without any is not searched. Detectors of the user's own are `Checked`.
    """
    scored: dict[str, Detector] = {}
    everything = detectors is None
    for one in [] if detectors is None else _listed(detectors):
        names = [name.strip() for name in one.split(",") if name.strip()] if isinstance(one, str) else []
        everything = everything or "all" in names
        for name in names:
            if name.lower() in ADAPTING:
                raise EvaluationError(
                    f"{name} adapts to the rows that it scores, so that the score of one depends on others and on "
                    "their order. Leave it out, or take neglabel, which has negative labels of its own."
                )
        names = [find_name("detector", name, DETECTORS) for name in names if name != "all"]
        for detector in [DETECTORS[name] for name in names] if isinstance(one, str) else [_instance(one)]:
            if scored.setdefault(detector.name, detector) is not detector:
                raise EvaluationError(f"Two detectors have the name {detector.name}. Give one of them another.")
    if not scored and not everything:
        raise EvaluationError("No detector is named. Name some, such as msp,energy, or all of them by all.")
    scored = {**DETECTORS, **scored} if everything else scored
    bases = sorted({base for detector in scored.values() for base in detector.base_methods} - {*scored})
    require_known("detector", bases, DETECTORS)
    used = {**{name: DETECTORS[name] for name in bases}, **scored}
    settings = settings or {}
    if not isinstance(settings, Mapping) or not all(isinstance(of, Mapping) for of in settings.values()):
        raise EvaluationError(
            f"Settings are values by detector and hyperparameter, found {one_line(repr(settings))}. Write them as in "
            '{"knn": {"k": 50}}.'
        )
    for given, values in settings.items():
        name = find_name("detector", given, {**DETECTORS, **used})
        numbers = _numbers(used.get(name) or DETECTORS[name], values)
        if name not in used:
            raise EvaluationError(f"There are settings of {name}, which is not scored. Add it to the detectors.")
        used[name] = _searching(used[name], {**used[name].search, **numbers})
    return Chosen({name: used[name] for name in scored}, {name: used[name] for name in bases}, everything)


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
        for name, default in detector.parameters().items():
            values = sorted(detector.search.get(name, ()))
            parts = ["fitted" if default is None else f"{default:g}"]
            parts += [detector.ranges[name]] if name in detector.ranges else []
            parts += ["searched: " + ", ".join(f"{value:g}" for value in values)] if len(values) > 1 else []
            lines.append((f"{detector.name}.{name}", "; ".join(parts)))
    return lines


def _listed(detectors: Any) -> list[Any]:
    """List one or several detectors; those of a set are sorted by their texts, so that runs agree."""
    if isinstance(detectors, str) or callable(detectors) or callable(getattr(detectors, "score", None)):
        return [detectors]
    if not isinstance(detectors, Iterable):
        return [Checked(detectors)]  # which says what it is
    return sorted(detectors, key=str) if isinstance(detectors, Set) else list(detectors)


def _instance(given: Any) -> Detector:
    """Return the built-in detector of a class, an instance that is not searched, or one of the user's as `Checked`."""
    if isinstance(given, Checked):
        return given
    built_in = next((one for one in DETECTORS.values() if type(one) in (given, type(given))), None)
    if built_in is None:
        return Checked(given)
    return built_in if isinstance(given, type) else _searching(given, {})


def _searching(detector: Detector, search: Mapping[str, tuple[float, ...]]) -> Detector:
    """Return a copy of a detector with other values to search among."""
    changed = detector.clone()
    vars(changed)["search"] = search
    return changed


def _numbers(detector: Detector, settings: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return settings of a detector as numbers; refuse other hyperparameters than it has, and what is no number."""
    allowed = {name: of for name, of in detector.parameters().items() if isinstance(of, int | float | None)}
    checked = {}
    for name, value in settings.items():
        if not allowed:
            raise EvaluationError(f"{detector.name} has no hyperparameters. Leave {detector.name}.{name} out.")
        require_known(f"hyperparameter of {detector.name}", [name], allowed)
        listed = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
        text = one_line(f"{detector.name}.{name}={','.join(map(str, listed))}")
        if not listed:
            raise EvaluationError(f"{text} has no value. Give one, or several to search among.")
        checked[name] = tuple(_number(one, text, whole=isinstance(allowed[name], int)) for one in listed)
    return checked


def _number(given: Any, where: str, *, whole: bool) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or (whole and not value.is_integer()):
        kind = "a whole number" if whole else "a number"
        raise EvaluationError(f"{one_line(str(given))!r} in {where} is not {kind}. Give one.")
    return int(value) if whole else value
