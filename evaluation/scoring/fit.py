"""Fits detectors on in-distribution rows, searches their hyperparameters, and scores rows."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.detectors.base import Detector, Method, Scores
from evaluation.detectors.registry import METHODS, method
from evaluation.errors import EvaluationError, unknown_name
from evaluation.features.cache import FeatureCache, Key
from evaluation.metrics.metrics import auroc
from evaluation.models.features import Features
from evaluation.progress import Log

TRAIN, VALIDATION, EXTERNAL = "train", "validation", "external_validation"

HELD_OUT = "held_out"
"""BROAD's validation split: "a held-out validation set of 45,000 samples", on which it fits mixtures of scores
(section 3)."""


@dataclass(frozen=True)
class FitSplits:
    """The splits that detectors are fitted and tuned on; None if there is none.

    Attributes:
        train: most detectors are fitted on it; the validation split if there are no training rows.
        validation: for detectors that must be fitted on rows outside the training set; the in-distribution side of a
            search. The split `validation`, or BROAD's `held_out`.
        external: the OoD side of a search, and the only unknown rows that any choice depends on.
    """

    train: Key | None
    validation: Key | None
    external: Key | None


@dataclass(frozen=True)
class Trial:
    """One trial of a hyperparameter search.

    Attributes:
        hyperparameters: values by name.
        auroc: AUROC of validation against external rows; None if the detector cannot be fitted or scored.
        problem: the reason for that, else empty.
    """

    hyperparameters: Mapping[str, float]
    auroc: float | None
    problem: str = ""


@dataclass(frozen=True)
class Fitted:
    """A fitted detector with its hyperparameters.

    Attributes:
        method: the method.
        detector: the fitted detector.
        hyperparameters: the chosen values.
        trials: the trials of the search; empty without one.
    """

    method: Method
    detector: Detector
    hyperparameters: Mapping[str, float]
    trials: tuple[Trial, ...] = ()


def find_fit_splits(
    splits: Mapping[str, Sequence[str]], configs: Sequence[str], fit_configs: Sequence[str]
) -> FitSplits:
    """Choose the splits to fit and tune on.

    Training rows come from the fit configs, else from `<config>-train`, else they are the validation rows.

    Args:
        splits: splits with features, by config.
        configs: the configs to score.
        fit_configs: configs to fit on; empty for the defaults of `configs`.

    Raises:
        EvaluationError: there are no features of a fit config, or it has neither training nor validation rows.
    """
    for config in fit_configs:
        if config not in splits:
            raise unknown_name("config with features to fit on", config, splits)
        if not {TRAIN, VALIDATION, HELD_OUT} & set(splits[config]):
            raise EvaluationError(
                f"{config} has no features of train, validation or held_out to fit on, only of "
                f"{', '.join(splits[config])}. Extract one of them."
            )

    def first(split: str, where: Iterable[str]) -> Key | None:
        return next(((config, split) for config in where if split in splits.get(config, ())), None)

    training = [*configs, *(f"{config}-train" for config in configs)]
    validation = first(VALIDATION, [*fit_configs, *configs]) or first(HELD_OUT, [*fit_configs, *configs])
    return FitSplits(first(TRAIN, fit_configs or training) or validation, validation, first(EXTERNAL, configs))


class Scorer:
    """Fits methods, each once, and scores splits.

    Args:
        cache: loads the features.
        fit_splits: the splits to fit and tune on.
        search: search hyperparameters; if false, use the defaults.
        log: receives a line about each method that is left out or cannot be searched.
    """

    def __init__(
        self, cache: FeatureCache, fit_splits: FitSplits, *, search: bool = True, log: Log = lambda text: None
    ) -> None:
        self.cache = cache
        self.fit_splits = fit_splits
        self.search = search
        self.log = log
        self._head = cache.store.head()
        self._fitted: dict[str, Fitted] = {}
        self._scores: dict[tuple[str, Key], Scores] = {}

    def fit(self, name: str) -> Fitted:
        """Fit a method, and before it the methods whose scores it combines.

        Raises:
            EvaluationError: there is no such method, its features are not available, or it cannot be fitted.
        """
        if name not in self._fitted:
            chosen = method(name)
            self.cache.check(chosen)
            for base in chosen.base_methods:
                self.fit(base)
            self._fitted[name] = self._choose(chosen)
        return self._fitted[name]

    def score(self, name: str, key: Key) -> Scores:
        """Return a method's scores of a split, shape (n,), higher = more unknown; computed once."""
        if (name, key) not in self._scores:
            fitted = self.fit(name)
            features = self._read(fitted.method, fitted.hyperparameters, key)
            self._scores[name, key] = fitted.detector.score(features)
        return self._scores[name, key]

    def predictions(self, name: str, key: Key) -> npt.NDArray[np.int64]:
        """Return the predicted classes of a split, shape (n,)."""
        fitted = self.fit(name)
        return self.cache.predictions(fitted.method, fitted.hyperparameters, key)

    def forget(self, key: Key) -> None:
        """Free the cached scores of a split."""
        for known in [pair for pair in self._scores if pair[1] == key]:
            del self._scores[known]

    def _read(self, chosen: Method, hyperparameters: Mapping[str, float], key: Key) -> Features:
        features = self.cache.read(chosen, hyperparameters, key)
        if chosen.base_methods:
            features = dataclasses.replace(
                features, scores={base: self.score(base, key) for base in chosen.base_methods}
            )
        return features

    def _choose(self, chosen: Method) -> Fitted:
        sets = [dict(zip(chosen.grid, values, strict=True)) for values in itertools.product(*chosen.grid.values())]
        if len(sets) == 1 or not self.search or not (self.fit_splits.validation and self.fit_splits.external):
            default = Fitted(chosen, self._make(chosen, sets[0]), sets[0])
            if len(sets) > 1 and self.search:
                self.log(
                    f"{chosen.name}: using the default hyperparameters, because there are no features of both "
                    f"{VALIDATION} and {EXTERNAL} to search on"
                )
            return default
        if chosen.score_together is None:
            trials = tuple(self._try(chosen, [hyperparameters])[0] for hyperparameters in sets)
        else:
            trials = self._try(chosen, sets)
        possible = [trial for trial in trials if trial.auroc is not None]
        if not possible:
            raise EvaluationError(trials[0].problem)
        # `max` returns the first of equals, so the default wins ties.
        best = max(possible, key=lambda trial: trial.auroc or 0.0).hyperparameters
        return Fitted(chosen, self._make(chosen, best), best, trials)

    def _try(self, chosen: Method, sets: Sequence[Mapping[str, float]]) -> tuple[Trial, ...]:
        """Compute the AUROC of validation against external rows, as in the unified benchmark (section 4).

        Args:
            chosen: the method.
            sets: hyperparameters to try; several only for a method whose detectors can score together.
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
        """Return each detector's AUROC of validation against external rows."""
        assert self.fit_splits.validation is not None and self.fit_splits.external is not None
        if not detectors:  # then no features are needed, either
            return []
        known = _in_distribution(self._read(chosen, hyperparameters, self.fit_splits.validation))
        unknown = self._read(chosen, hyperparameters, self.fit_splits.external)
        truth = np.repeat([False, True], [len(known), len(unknown)])
        sides = (_scores(chosen, detectors, features) for features in (known, unknown))
        return [auroc(np.concatenate(pair), truth) for pair in zip(*sides, strict=True)]

    def _make(self, chosen: Method, hyperparameters: Mapping[str, float]) -> Detector:
        arguments = dict(hyperparameters)
        if "seed" in inspect.signature(chosen.make).parameters:
            arguments["seed"] = self.cache.seed
        if chosen.fit == "none":
            return chosen.make(None, self._head, **arguments)
        key = self.fit_splits.train if chosen.fit == "train" else self.fit_splits.validation
        if key is None:
            wanted = f"{VALIDATION} or {HELD_OUT}"
            wanted = f"{TRAIN}, {wanted}" if chosen.fit == "train" else wanted
            raise EvaluationError(
                f"{self.cache.store.root} has no features of {wanted}, on which {chosen.name} is fitted. Extract such "
                "a split."
            )
        features = _in_distribution(self._read(chosen, hyperparameters, key))
        if not len(features):
            raise EvaluationError(
                f"{'/'.join(key)} has no labelled rows to fit {chosen.name} on. Choose another config with "
                "--fit-config."
            )
        return chosen.make(features, self._head, **arguments)


def _scores(chosen: Method, detectors: Sequence[Detector], features: Features) -> list[Scores]:
    if chosen.score_together is not None:
        return chosen.score_together(detectors, features)
    return [detector.score(features) for detector in detectors]


def _in_distribution(features: Features) -> Features:
    """Select the rows of in-distribution classes: some splits mix in-distribution and unknown rows."""
    known = features.labels >= 0
    return features if known.all() else features.take(known)


def expand(names: Sequence[str] | None) -> tuple[str, ...]:
    """Expand a list of methods; None, or `all` among them, means every method.

    Raises:
        EvaluationError: there is no such method.
    """
    if names is None or "all" in names:
        return tuple(METHODS)
    return tuple(method(name).name for name in names)
