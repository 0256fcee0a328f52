"""Fits detectors, searches their hyperparameters, and scores rows, with the features that each needs.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import METHODS, Methods, Settings, find_method
from unknown_detection.evaluation.detectors.base import Detector, Scores, predicted
from unknown_detection.evaluation.detectors.images import ImageDetector
from unknown_detection.evaluation.detectors.logits import average
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.runner import Runner
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.metrics.metrics import auroc
from unknown_detection.evaluation.models.features import Features, Head
from unknown_detection.evaluation.releases import Key
from unknown_detection.evaluation.scoring.fit_splits import (
    EXTERNAL,
    FIT_HALF,
    HELD_OUT,
    TRAIN,
    TUNE_HALF,
    VALIDATION,
    FitSplits,
    Mask,
    in_fit_half,
)
from unknown_detection.terminal.progress import Log, bar

_KEPT = 3
"""Number of splits whose features stay in memory: the splits to fit on, tune on and tune against."""

_BUILT_IN = [method.image_pass for method in METHODS.values() if issubclass(method, ImageDetector)]
"""The passes of the built-in detectors: they are kept by their names."""


@dataclass
class FeatureCache:
    """Loads the features that methods need, and caches them in memory.

    `members` are features of further models on the same release, for ensembles; `runner` runs the model on the images
    again, None if only stored outputs are available.
    """

    store: FeatureStore
    members: Sequence[FeatureStore] = ()
    runner: Runner | None = None
    seed: int = 0
    quiet: bool = False

    def __post_init__(self) -> None:
        digests = [self.store.identity.model_digest]
        for member in self.members:
            member.require_release(self.store.identity.release_digest)
            if member.identity.model_digest in digests:
                raise EvaluationError(
                    f"The features in {member.root} are of the same model as others that were given. Give each member "
                    "of an ensemble once."
                )
            digests.append(member.identity.model_digest)
        self._features = lru_cache(_KEPT)(self.store.features)

    def check(self, method: type[Detector]) -> None:
        """Refuse a method that needs several models or the images, which were not given, or another kind of model."""
        if method.reads == "members" and not self.members:
            raise EvaluationError(
                f"{method.name} needs features of several models, but only one was given. Extract features with each "
                "model into a folder of its own, and give the others with --member (in Python, a list of all)."
            )
        if issubclass(method, ImageDetector):
            if self.runner is None:
                raise EvaluationError(
                    f"{method.name} runs the model on the images again, which needs --release, --model and --weights "
                    "(or --pretrained). Give them (in Python, the features that extract returned, or runner=), or "
                    "leave the detector out."
                )
            method.image_pass.check(self.runner.model)

    def features(self, key: Key) -> Features:
        """Load the model's features of a split."""
        return self._features(*key)

    def read(self, method: type[Detector], hyperparameters: Mapping[str, float], key: Key) -> Features:
        """Load the features that a method needs, except other detectors' scores."""
        if issubclass(method, ImageDetector):
            return self._pass_features(method, hyperparameters, key)
        if method.reads == "members":
            return average([self.features(key), *(member.features(*key) for member in self.members)])
        return self.features(key)

    @cached_property
    def _of_this_run(self) -> FeatureStore:
        """The store of passes that code in memory defines: nothing says whether it is the same in another run."""
        return FeatureStore.temporary(self.store.identity)

    def _pass_features(self, method: type[ImageDetector], hyperparameters: Mapping[str, float], key: Key) -> Features:
        image_pass, parameters, features = method.image_pass, method.of_pass(hyperparameters), self.features(key)
        if image_pass.is_ordinary(parameters):
            return replace(features, passed={"logits": features.logits})
        values = {**parameters, **({"seed": self.seed} if image_pass.random else {})}
        described = (f"{parameter}={repr(value).removesuffix('.0')}" for parameter, value in sorted(values.items()))
        built_in = image_pass in _BUILT_IN
        name = "-".join([image_pass.name, *described, *([] if built_in else [method.digest[:16]])])
        store = self.store if built_in or method.digest else self._of_this_run
        row_blocks = store.row_blocks(*key, name)
        if not row_blocks.is_whole():
            runner = self.runner
            assert runner is not None  # `check` refuses the method otherwise
            run = partial(image_pass.run, seed=self.seed, **parameters)
            rows = len(runner.release.rows(*key))
            with store.writing(), bar(rows, f"{name} {'/'.join(key)}", quiet=self.quiet) as progress:
                runner.run(run, row_blocks, key, progress.update, store.other_splits(*key, name))
        columns = row_blocks.read()
        return replace(features, passed={name: columns[name] for name in columns if name not in ("id", "label")})


@dataclass(frozen=True)
class Trial:
    """A trial of a hyperparameter search: its AUROC, of what `Detector.chosen_by` names, or the problem."""

    hyperparameters: Mapping[str, float]
    auroc: float | None
    problem: str = ""


@dataclass(frozen=True)
class Fitted:
    """A fitted detector with its hyperparameters: those that were set or searched."""

    detector: Detector
    hyperparameters: Mapping[str, float]
    trials: tuple[Trial, ...] = ()


@dataclass
class Scorer:
    """Fits each method once, on `fit_splits`, and scores splits.

    `search` looks for hyperparameters, else the defaults count; `settings` has, by detector, the values to search
    among in place of the method's own; `chosen` are the methods to score, those of other names are built in; `log`
    receives a line about each method that cannot be searched or is left out.

    `fit_half` are the validation rows that detectors are fitted on in place of training rows, shape (n,), `halved` is
    their split (`config/split`), empty for none; `fitted_on` and `tuned_on` are, as recorded, the rows that most
    detectors are fitted on, and the known rows that hyperparameters and thresholds are chosen on.
    """

    cache: FeatureCache
    fit_splits: FitSplits
    search: bool = True
    settings: Settings = field(default_factory=dict)
    chosen: Methods = field(default_factory=dict)
    log: Log = lambda text: None
    _fitted: dict[str, Fitted] = field(default_factory=dict)
    _scores: dict[tuple[str, Key], Scores] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._head: Head | None = self.cache.store.head()
        train, validation = self.fit_splits.train, self.fit_splits.validation
        self.fit_half: Mask = np.zeros(0, dtype=np.bool_)
        if train is None and validation is not None:
            features = self.cache.features(validation)
            # Every class needs a row for either half.
            counts = np.unique(features.labels[features.labels >= 0], return_counts=True)[1]
            self.fit_half = in_fit_half(features.ids.tolist(), features.labels) & (counts > 1).all()
        self.halved = "/".join(validation or ()) if self.fit_half.any() else ""
        self.fitted_on = "/".join(train or ()) or (f"{self.halved} ({FIT_HALF})" if self.halved else "")
        self.tuned_on = f"{self.halved} ({TUNE_HALF})" if self.halved else "/".join(validation or ())

    def fit(self, name: str) -> Fitted:
        """Fit a method, and before it the methods whose scores it combines."""
        if name not in self._fitted:
            method = find_method(name, self.chosen)
            self.cache.check(method)
            for base in method.base_methods:
                self.fit(base)
            self._fitted[name] = self._choose(method)
        return self._fitted[name]

    def score(self, name: str, key: Key) -> Scores:
        """Return a method's scores of a split, shape (n,), higher = more unknown; computed once."""
        if (name, key) not in self._scores:
            detector, features = self.fit(name).detector, self._read_for(name, key)
            self._scores[name, key] = detector.score(features.unlabelled())
        return self._scores[name, key]

    def predictions(self, name: str, key: Key) -> npt.NDArray[np.int64]:
        """Return the predicted classes of a split, shape (n,); -1 where a detector predicts none of the classes."""
        return self.fit(name).detector.predict(self._read_for(name, key).unlabelled())

    def forget(self, key: Key) -> None:
        """Free the cached scores of a split."""
        self._scores = {pair: scores for pair, scores in self._scores.items() if pair[1] != key}

    def _read_for(self, name: str, key: Key) -> Features:
        fitted = self.fit(name)
        return self._read(type(fitted.detector), fitted.hyperparameters, key)

    def _read(self, method: type[Detector], hyperparameters: Mapping[str, float], key: Key) -> Features:
        features = self.cache.read(method, hyperparameters, key)
        scores = {base: self.score(base, key) for base in method.base_methods}
        return dataclasses.replace(features, scores=scores) if scores else features

    def _choose(self, method: type[Detector]) -> Fitted:
        grid = {**method.search, **self.settings.get(method.name, {})}
        sets = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        trials, missing = self._trials(method, sets) if len(sets) > 1 and self.search else ((), "")
        if not trials:
            default = Fitted(self._make(method, sets[0]), sets[0])
            if missing:
                self.log(f"{method.name}: using the default hyperparameters, because {missing} to search on")
            return default
        if all(trial.auroc is None for trial in trials):
            raise EvaluationError(trials[0].problem)
        # `max` returns the first of equals, so the default wins ties.
        best = max(trials, key=lambda trial: -1.0 if trial.auroc is None else trial.auroc).hyperparameters
        return Fitted(self._make(method, best), best, tuple(trials))

    def _trials(self, method: type[Detector], sets: Sequence[Mapping[str, float]]) -> tuple[Sequence[Trial], str]:
        """Return a trial of each set of hyperparameters, or none and what is missing for them."""
        if method.chosen_by == "errors":
            trials = self._try_on_errors(method, sets) if self.fit_splits.validation else []
            return trials, f"there are no features of right and of wrong rows of {VALIDATION}"
        if not (self.fit_splits.validation and self.fit_splits.external):
            return (), f"there are no features of both {VALIDATION} and {EXTERNAL}"
        shared = method.score_together is not Detector.score_together
        groups = [sets] if shared else [[hyperparameters] for hyperparameters in sets]
        return [trial for group in groups for trial in self._try(method, group)], ""

    def _try(self, method: type[Detector], sets: Sequence[Mapping[str, float]]) -> list[Trial]:
        """Compute the AUROC of validation against external rows, as in the unified benchmark (section 4).

        Several sets of hyperparameters are only for a method whose detectors can score together.
        """
        assert self.fit_splits.validation is not None and self.fit_splits.external is not None
        trials = [Trial(hyperparameters, None) for hyperparameters in sets]
        detectors: dict[int, Detector] = {}
        for number, hyperparameters in enumerate(sets):
            try:
                detectors[number] = self._make(method, hyperparameters)
            except EvaluationError as error:
                trials[number] = Trial(hyperparameters, None, str(error))
        try:
            if detectors:
                known = self._validation_rows(method, sets[0], to_fit=False)
                unknown = self._read(method, sets[0], self.fit_splits.external)
                truth = np.repeat([False, True], [len(known), len(unknown)])
                sides = (method.score_together([*detectors.values()], rows.unlabelled()) for rows in (known, unknown))
                for number, pair in zip(detectors, zip(*sides, strict=True), strict=True):
                    trials[number] = Trial(sets[number], auroc(np.concatenate(pair), truth))
        except EvaluationError as error:
            for number in detectors:
                trials[number] = Trial(sets[number], None, str(error))
        return trials

    def _try_on_errors(self, method: type[Detector], sets: Sequence[Mapping[str, float]]) -> list[Trial]:
        """Compute the AUROC of right against wrong in-distribution rows, as in BROAD (section 3, tables 6 and 7).

        The paper does not say on which rows. Here the detector is fitted on half of the rows that it is fitted on in
        the end, and judged on the other half (ours). No trial is made if that half has no wrong row, or no right one.
        """
        rows = self._validation_rows(method, sets[0], to_fit=False)
        fits = in_fit_half(rows.ids.tolist(), rows.labels)
        judged = rows.take(~fits)
        wrong = predicted(judged) != judged.labels
        trials: list[Trial] = []
        for values in sets if 0 < wrong.sum() < len(wrong) else ():
            try:
                detector = self._new(method, values).fit(rows.take(fits), self._head)
                trials.append(Trial(values, auroc(detector.score(judged.unlabelled()), wrong)))
            except EvaluationError as error:
                trials.append(Trial(values, None, str(error)))
        return trials

    def _make(self, method: type[Detector], hyperparameters: Mapping[str, float]) -> Detector:
        detector = self._new(method, hyperparameters)
        if method.fits_on == "none":
            return detector.fit(None, self._head)
        key = (method.fits_on == "train" and self.fit_splits.train) or self.fit_splits.validation
        if key is None:
            train = f"{TRAIN}, " if method.fits_on == "train" else ""
            raise EvaluationError(
                f"{self.cache.store.root} has no features of {train}{VALIDATION} or {HELD_OUT}, on which "
                f"{method.name} is fitted. Extract such a split."
            )
        if key == self.fit_splits.validation:
            features = self._validation_rows(method, hyperparameters, to_fit=method.fits_on == "train")
        else:
            features = _in_distribution(self._read(method, hyperparameters, key))
        if not len(features):
            raise EvaluationError(
                f"{'/'.join(key)} has no labelled rows to fit {method.name} on. Choose another config with "
                "--fit-splits (in Python fit_configs=)."
            )
        return detector.fit(features, self._head)

    def _new(self, method: type[Detector], hyperparameters: Mapping[str, float]) -> Detector:
        seeded = "seed" in inspect.signature(method).parameters
        return method(**hyperparameters, **({"seed": self.cache.seed} if seeded else {}))

    def _validation_rows(
        self, method: type[Detector], hyperparameters: Mapping[str, float], *, to_fit: bool
    ) -> Features:
        """Read in-distribution validation rows: those to fit on in place of training rows, or those to tune on."""
        assert self.fit_splits.validation is not None
        features = self._read(method, hyperparameters, self.fit_splits.validation)
        if to_fit and not self.halved:
            raise EvaluationError(
                f"{'/'.join(self.fit_splits.validation)} has a class of one row only, or no labelled rows, so it "
                "cannot be divided into rows to fit on and rows to tune on. Extract the split train, or more rows of "
                "validation."
            )
        if to_fit:
            return features.take(self.fit_half)
        return _in_distribution(features.take(~self.fit_half) if self.halved else features)


def _in_distribution(features: Features) -> Features:
    """Select the rows of in-distribution classes: some splits mix in-distribution and unknown rows."""
    known = features.labels >= 0
    return features if known.all() else features.take(known)
