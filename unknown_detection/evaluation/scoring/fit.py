"""Chooses the rows that detectors are fitted and tuned on, fits them, searches their hyperparameters, and scores rows.

Without training rows, the in-distribution rows of validation are divided into two halves: detectors are fitted on one,
and hyperparameters and thresholds are chosen on the other. A nearest neighbour would otherwise find every tuning row
among the rows it was fitted on, at a distance of 0.

Rows to tune on serve several times: hyperparameters and OD-test's thresholds are chosen on the same rows, and methods
whose `fits_on` is "validation" are fitted on them, too. A report with such thresholds names these detectors.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import METHODS, Methods, Settings, find_method
from unknown_detection.evaluation.detectors.base import Detector, Scores, predicted
from unknown_detection.evaluation.detectors.images import ImageDetector
from unknown_detection.evaluation.detectors.logits import average
from unknown_detection.evaluation.errors import EvaluationError, require_known
from unknown_detection.evaluation.features.runner import Runner
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.metrics.metrics import auroc
from unknown_detection.evaluation.models.features import Features, Head
from unknown_detection.evaluation.releases import Key
from unknown_detection.terminal.progress import Log, bar

TRAIN, VALIDATION, EXTERNAL = "train", "validation", "external_validation"

EXTERNALS = (EXTERNAL, "openimage_o_validation")
"""Unknown rows to tune on: the papers', and those that OpenOOD v1.5 tunes on, images of OpenImage-O apart from its
far split's."""

HELD_OUT = "held_out"
"""BROAD's validation split: "a held-out validation set of 45,000 samples", on which it fits mixtures of scores
(section 3)."""

FIT_HALF, TUNE_HALF = "fit half", "tune half"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FitSplits:
    """The splits that detectors are fitted and tuned on; None if there is none.

    Most detectors are fitted on `train`; without it, on a half of `validation`. That is the split `validation`, or
    BROAD's `held_out`: for detectors that must be fitted on rows outside the training set, and the in-distribution
    side of a search. `external` is its OoD side, and has the only unknown rows that any choice depends on.
    """

    train: Key | None
    validation: Key | None
    external: Key | None


def find_fit_splits(
    splits: Mapping[str, Sequence[str]], configs: Sequence[str], fit_configs: Sequence[str]
) -> FitSplits:
    """Choose the splits to fit and tune on for the configs to score, of those with features, by config.

    Training rows come from the fit configs, each of which must have some to fit on, else from `<config>-train`.
    """
    require_known("config with features to fit on", fit_configs, splits)
    for config in fit_configs:
        if not {TRAIN, VALIDATION, HELD_OUT} & set(splits[config]):
            raise EvaluationError(
                f"{config} has no features of train, validation or held_out to fit on, only of "
                f"{', '.join(splits[config])}. Extract one of them."
            )

    def first(split: str, where: Iterable[str]) -> Key | None:
        return next(((config, split) for config in where if split in splits.get(config, ())), None)

    training = [*configs, *(f"{config}-train" for config in configs)]
    validation = first(VALIDATION, [*fit_configs, *configs]) or first(HELD_OUT, [*fit_configs, *configs])
    external = next(filter(None, (first(name, configs) for name in EXTERNALS)), None)
    return FitSplits(first(TRAIN, fit_configs or training), validation, external)


def in_fit_half(ids: Sequence[str], labels: npt.NDArray[np.int64]) -> Mask:
    """Divide the in-distribution rows of a split into halves, class by class.

    The rows of a class, sorted by the SHA-256 of their ids, go to the fit half and to the tune half in turn. The
    halves depend on nothing but ids and labels, so a report finds the same ones.
    """
    ranks = [hashlib.sha256(f"fit half\t{id_}".encode()).digest() for id_ in ids]
    order = sorted(range(len(ids)), key=lambda row: (int(labels[row]), ranks[row]))
    sorted_labels = labels[order]
    place = np.arange(len(order)) - np.searchsorted(sorted_labels, sorted_labels)
    fits = np.zeros(len(order), dtype=np.bool_)
    fits[order] = (place % 2 == 0) & (sorted_labels >= 0)
    return fits


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
