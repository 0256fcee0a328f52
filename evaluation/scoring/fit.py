"""Fitting detectors on in-distribution rows, choosing their hyperparameters, and scoring every row."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.detectors.base import Detector, Method, Scores
from evaluation.detectors.registry import METHODS, method
from evaluation.errors import EvaluationError, unknown_name
from evaluation.features.cache import Key, Shelf
from evaluation.metrics.metrics import auroc
from evaluation.models.features import Features

TRAIN, VALIDATION, EXTERNAL = "train", "validation", "external_validation"

Say = Callable[[str], object]
"""Takes one line for the person who waits."""


@dataclass(frozen=True)
class Sources:
    """Splits that detectors are fitted and tuned on; None where there is none.

    Attributes:
        train: fits most detectors; validation where no training rows are at hand.
        validation: fits those that need rows that the model was not trained on, and is the known side of a search.
        external: the unknown side of a search, and the only unknowns that anything is chosen by.
    """

    train: Key | None
    validation: Key | None
    external: Key | None


@dataclass(frozen=True)
class Trial:
    """One set of hyperparameters in a search.

    Attributes:
        hyperparameters: by name.
        auroc: of validation against external rows; None where the detector cannot be made so.
        problem: why not; empty where it can.
    """

    hyperparameters: Mapping[str, float]
    auroc: float | None
    problem: str = ""


@dataclass(frozen=True)
class Fitted:
    """A detector that is ready to score.

    Attributes:
        method: what it is.
        detector: fitted.
        hyperparameters: those that were chosen.
        trials: what they were chosen from; empty without a search.
    """

    method: Method
    detector: Detector
    hyperparameters: Mapping[str, float]
    trials: tuple[Trial, ...] = ()


def find_sources(splits: Mapping[str, Sequence[str]], configs: Sequence[str], fit_configs: Sequence[str]) -> Sources:
    """The splits to fit and tune on.

    Training rows are those of the fit configs, else of `<config>-train`, else the validation rows.

    Args:
        splits: splits with features, by config.
        configs: the configs to score.
        fit_configs: configs to fit on; empty for those that belong to `configs`.

    Raises:
        EvaluationError: there are no features of a fit config, or none of its splits can be fitted on.
    """
    for config in fit_configs:
        if config not in splits:
            raise unknown_name("config with features to fit on", config, splits)
        if not {TRAIN, VALIDATION} & set(splits[config]):
            raise EvaluationError(
                f"expected features of a split train or validation of {config} to fit on, found those of "
                f"{', '.join(splits[config])}; extract one of the two."
            )

    def first(split: str, where: Iterable[str]) -> Key | None:
        return next(((config, split) for config in where if split in splits.get(config, ())), None)

    training = [*configs, *(f"{config}-train" for config in configs)]
    validation = first(VALIDATION, [*fit_configs, *configs])
    return Sources(first(TRAIN, fit_configs or training) or validation, validation, first(EXTERNAL, configs))


class Scorer:
    """Fits each method once, and scores splits.

    Args:
        shelf: what methods read.
        sources: what they are fitted and tuned on.
        search: choose hyperparameters; without it the defaults are taken.
        say: told what is left out or cannot be searched.
    """

    def __init__(self, shelf: Shelf, sources: Sources, *, search: bool = True, say: Say = lambda text: None) -> None:
        self.shelf = shelf
        self.sources = sources
        self.search = search
        self.say = say
        self._head = shelf.store.head()
        self._fitted: dict[str, Fitted] = {}
        self._scores: dict[tuple[str, Key], Scores] = {}

    def fit(self, name: str) -> Fitted:
        """Fit a method, after those whose scores it reads.

        Raises:
            EvaluationError: there is no such method, it cannot be used with what there is, or cannot be fitted.
        """
        if name not in self._fitted:
            chosen = method(name)
            self.shelf.check(chosen)
            for part in chosen.parts:
                self.fit(part)
            self._fitted[name] = self._choose(chosen)
        return self._fitted[name]

    def score(self, name: str, key: Key) -> Scores:
        """Scores of a fitted method, shape (n,), higher = more unknown; computed once for each split."""
        if (name, key) not in self._scores:
            fitted = self.fit(name)
            features = self._read(fitted.method, fitted.hyperparameters, key)
            self._scores[name, key] = fitted.detector.score(features)
        return self._scores[name, key]

    def predictions(self, name: str, key: Key) -> npt.NDArray[np.int64]:
        """Predicted classes, shape (n,)."""
        fitted = self.fit(name)
        return self.shelf.predictions(fitted.method, fitted.hyperparameters, key)

    def forget(self, key: Key) -> None:
        """Drop the scores of a split, which nothing asks for again."""
        for known in [pair for pair in self._scores if pair[1] == key]:
            del self._scores[known]

    def _read(self, chosen: Method, hyperparameters: Mapping[str, float], key: Key) -> Features:
        features = self.shelf.read(chosen, hyperparameters, key)
        if chosen.parts:
            features = dataclasses.replace(features, scores={part: self.score(part, key) for part in chosen.parts})
        return features

    def _choose(self, chosen: Method) -> Fitted:
        sets = [dict(zip(chosen.grid, values, strict=True)) for values in itertools.product(*chosen.grid.values())]
        if len(sets) == 1 or not self.search or not (self.sources.validation and self.sources.external):
            default = Fitted(chosen, self._make(chosen, sets[0]), sets[0])
            if len(sets) > 1 and self.search:
                self.say(
                    f"{chosen.name}: its hyperparameters are the defaults, since there are no features of both "
                    f"{VALIDATION} and {EXTERNAL} to choose them on"
                )
            return default
        if chosen.together is None:
            trials = tuple(self._try(chosen, [hyperparameters])[0] for hyperparameters in sets)
        else:
            trials = self._try(chosen, sets)
        possible = [trial for trial in trials if trial.auroc is not None]
        if not possible:
            raise EvaluationError(trials[0].problem)
        # The first of the best: the default, where nothing is better.
        best = max(possible, key=lambda trial: trial.auroc or 0.0).hyperparameters
        return Fitted(chosen, self._make(chosen, best), best, trials)

    def _try(self, chosen: Method, sets: Sequence[Mapping[str, float]]) -> tuple[Trial, ...]:
        """Hold validation rows against external ones, as the unified unknown detection paper does (section 4).

        Args:
            chosen: the method.
            sets: hyperparameters to try; several only of a method whose detectors score together.
        """
        made: dict[int, Detector] = {}
        problems: dict[int, str] = {}
        for number, hyperparameters in enumerate(sets):
            try:
                made[number] = self._make(chosen, hyperparameters)
            except EvaluationError as error:
                problems[number] = str(error)
        try:
            areas = dict(zip(made, self._areas(chosen, sets[0], list(made.values())), strict=True))
        except EvaluationError as error:
            areas, problems = {}, problems | dict.fromkeys(made, str(error))
        return tuple(
            Trial(hyperparameters, areas.get(number), problems.get(number, ""))
            for number, hyperparameters in enumerate(sets)
        )

    def _areas(
        self, chosen: Method, hyperparameters: Mapping[str, float], detectors: Sequence[Detector]
    ) -> list[float]:
        """The AUROC of validation against external rows, of each detector."""
        assert self.sources.validation is not None and self.sources.external is not None
        if not detectors:  # nor is anything looked at for them
            return []
        known = _in_distribution(self._read(chosen, hyperparameters, self.sources.validation))
        unknown = self._read(chosen, hyperparameters, self.sources.external)
        truth = np.repeat([False, True], [len(known), len(unknown)])
        sides = (_scores(chosen, detectors, features) for features in (known, unknown))
        return [auroc(np.concatenate(pair), truth) for pair in zip(*sides, strict=True)]

    def _make(self, chosen: Method, hyperparameters: Mapping[str, float]) -> Detector:
        arguments = dict(hyperparameters)
        if "seed" in inspect.signature(chosen.make).parameters:
            arguments["seed"] = self.shelf.seed
        if chosen.fit == "none":
            return chosen.make(None, self._head, **arguments)
        key = self.sources.train if chosen.fit == "train" else self.sources.validation
        if key is None:
            wanted = f"{TRAIN} or {VALIDATION}" if chosen.fit == "train" else VALIDATION
            raise EvaluationError(
                f"expected features of a split {wanted} to fit {chosen.name} on, found none in "
                f"{self.shelf.store.root}; extract one."
            )
        features = _in_distribution(self._read(chosen, hyperparameters, key))
        if not len(features):
            raise EvaluationError(
                f"expected labels in {'/'.join(key)} to fit {chosen.name} on, found a split without; name another "
                "config with --fit-config."
            )
        return chosen.make(features, self._head, **arguments)


def _scores(chosen: Method, detectors: Sequence[Detector], features: Features) -> list[Scores]:
    if chosen.together is not None:
        return chosen.together(detectors, features)
    return [detector.score(features) for detector in detectors]


def _in_distribution(features: Features) -> Features:
    """The rows of an in-distribution class: some configs have both sides in one split."""
    known = features.labels >= 0
    return features if known.all() else features.take(known)


def expand(names: Sequence[str] | None) -> tuple[str, ...]:
    """The names of methods that are asked for; None, or `all` among them, stands for every one.

    Raises:
        EvaluationError: there is no such method.
    """
    if names is None or "all" in names:
        return tuple(METHODS)
    return tuple(method(name).name for name in names)
