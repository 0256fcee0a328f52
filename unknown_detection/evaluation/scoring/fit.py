"""Fits detectors, searches their hyperparameters, and scores rows, with the features that each needs.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import DETECTORS
from unknown_detection.evaluation.detectors.base import Detector, Scores, predicted
from unknown_detection.evaluation.detectors.choice import Chosen, choose
from unknown_detection.evaluation.detectors.logits import average
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.runner import Runner
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.metrics.metrics import auroc
from unknown_detection.evaluation.models.features import Features
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

_BUILT_IN = [detector.image_pass for detector in DETECTORS.values() if detector.image_pass is not None]
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

    def check(self, detector: Detector) -> None:
        """Refuse a detector that needs several models or the images, without them, or another kind of model."""
        if detector.reads == "members" and not self.members:
            raise EvaluationError(
                f"{detector.name} needs features of several models, but only one was given. Extract features with "
                "each model into a folder of its own, and give the others with --member (in Python, a list of all)."
            )
        if detector.image_pass is not None:
            if self.runner is None:
                raise EvaluationError(
                    f"{detector.name} runs the model on the images again, which needs --release, --model and "
                    "--weights (or --pretrained). Give them (in Python, the features that extract returned, or "
                    "runner=), or leave the detector out."
                )
            detector.image_pass.check(self.runner.model)

    def features(self, key: Key) -> Features:
        """Load the model's features of a split."""
        return self._features(*key)

    def read(self, detector: Detector, key: Key) -> Features:
        """Load the features that a detector needs, except other detectors' scores."""
        if detector.image_pass is not None:
            return self._pass_features(detector, key)
        if detector.reads == "members":
            return average([self.features(key), *(member.features(*key) for member in self.members)])
        return self.features(key)

    def no_rows(self) -> Features:
        """Return features of no rows, with the model's last layer, for detectors that learn from nothing else."""
        head, classes = self.store.head(), len(self.store.identity.label_names)
        width = 0 if head is None else head.weight.shape[1]
        ids, labels = np.array([], dtype=np.str_), np.array([], dtype=np.int64)
        return Features(ids, labels, np.empty((0, classes)), np.empty((0, width)), (), head=head)

    @cached_property
    def _of_this_run(self) -> FeatureStore:
        """The store of passes that code in memory defines: nothing says whether it is the same in another run."""
        return FeatureStore.begin(None, self.store.identity)

    def _pass_features(self, detector: Detector, key: Key) -> Features:
        image_pass, features = detector.image_pass, self.features(key)
        parameters = image_pass.parameters(detector)
        if image_pass.is_ordinary(parameters):
            return replace(features, passed={"logits": features.logits})
        values = {**parameters, **({"seed": self.seed} if image_pass.random else {})}
        described = (f"{parameter}={repr(value).removesuffix('.0')}" for parameter, value in sorted(values.items()))
        built_in = image_pass in _BUILT_IN
        name = "-".join([image_pass.name, *described, *([] if built_in else [detector.digest[:16]])])
        store = self.store if built_in or detector.digest else self._of_this_run
        table, ids = store.passes(name), self.store.ids(*key)
        if not table.has("/".join(key), ids).all():
            runner = self.runner
            assert runner is not None  # `check` refuses the detector otherwise
            run = partial(image_pass.run, seed=self.seed, **parameters)
            rows = len(runner.release.rows(*key))
            with store.writing(), bar(rows, f"{name} {'/'.join(key)}", quiet=self.quiet) as progress:
                runner.run(run, table, key, progress.update)
        return replace(features, passed=table.read("/".join(key), ids))


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
    """Fits each of the chosen detectors once, on `fit_splits`, and scores splits.

    `search` looks for hyperparameters, else the defaults count; `log` receives a line about each detector that cannot
    be searched or is left out.

    `fit_half` are the validation rows that detectors are fitted on in place of training rows, shape (n,), `halved` is
    their split (`config/split`), empty for none; `fitted_on` and `tuned_on` are, as recorded, the rows that most
    detectors are fitted on, and the known rows that hyperparameters and thresholds are chosen on.
    """

    cache: FeatureCache
    fit_splits: FitSplits
    chosen: Chosen = field(default_factory=lambda: choose(None))
    search: bool = True
    log: Log = lambda text: None
    _fitted: dict[str, Fitted] = field(default_factory=dict)
    _scores: dict[tuple[str, Key], Scores] = field(default_factory=dict)

    def __post_init__(self) -> None:
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
        """Fit a detector, and before it those whose scores it combines."""
        if name not in self._fitted:
            detector = self.chosen.scored.get(name) or self.chosen.parts[name]
            self.cache.check(detector)
            for base in detector.base_methods:
                self.fit(base)
            self._fitted[name] = self._choose(detector)
        return self._fitted[name]

    def score(self, name: str, key: Key) -> Scores:
        """Return a detector's scores of a split, shape (n,), higher = more unknown; computed once."""
        if (name, key) not in self._scores:
            detector = self.fit(name).detector
            self._scores[name, key] = detector.score(self._read(detector, key).unlabelled())
        return self._scores[name, key]

    def predictions(self, name: str, key: Key) -> npt.NDArray[np.int64]:
        """Return the predicted classes of a split, shape (n,); -1 where a detector predicts none of the classes."""
        detector = self.fit(name).detector
        return detector.predict(self._read(detector, key).unlabelled())

    def forget(self, key: Key) -> None:
        """Free the cached scores of a split."""
        self._scores = {pair: scores for pair, scores in self._scores.items() if pair[1] != key}

    def _read(self, detector: Detector, key: Key) -> Features:
        features = self.cache.read(detector, key)
        scores = {base: self.score(base, key) for base in detector.base_methods}
        return replace(features, scores=scores) if scores else features

    def _choose(self, detector: Detector) -> Fitted:
        grid = detector.search
        sets = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        trials, missing = self._trials(detector, sets) if len(sets) > 1 and self.search else ((), "")
        if not trials:
            kept = {name: value for name, value in detector.parameters().items() if isinstance(value, int | float)}
            default = Fitted(self._fitted_on_its_rows(self._with(detector, sets[0])), sets[0] or kept)
            if missing:
                self.log(f"{detector.name}: using the default hyperparameters, because {missing} to search on")
            return default
        if all(trial.auroc is None for trial in trials):
            raise EvaluationError(trials[0].problem)
        # `max` returns the first of equals, so the default wins ties.
        best = max(trials, key=lambda trial: -1.0 if trial.auroc is None else trial.auroc).hyperparameters
        return Fitted(self._fitted_on_its_rows(self._with(detector, best)), best, tuple(trials))

    def _trials(self, detector: Detector, sets: Sequence[Mapping[str, float]]) -> tuple[Sequence[Trial], str]:
        """Return a trial of each set of hyperparameters, or none and what is missing for them."""
        if detector.chosen_by == "errors":
            trials = self._try_on_errors(detector, sets) if self.fit_splits.validation else []
            return trials, f"there are no features of right and of wrong rows of {VALIDATION}"
        if not (self.fit_splits.validation and self.fit_splits.external):
            return (), f"there are no features of both {VALIDATION} and {EXTERNAL}"
        groups = [sets] if detector.shares_work else [[hyperparameters] for hyperparameters in sets]
        return [trial for group in groups for trial in self._try(detector, group)], ""

    def _try(self, detector: Detector, sets: Sequence[Mapping[str, float]]) -> list[Trial]:
        """Compute the AUROC of validation against external rows, as in the unified benchmark (section 4).

        Several sets of hyperparameters are only for detectors that share their work when they score together.
        """
        assert self.fit_splits.validation is not None and self.fit_splits.external is not None
        trials = [Trial(hyperparameters, None) for hyperparameters in sets]
        detectors: dict[int, Detector] = {}
        for number, hyperparameters in enumerate(sets):
            try:
                detectors[number] = self._fitted_on_its_rows(self._with(detector, hyperparameters))
            except EvaluationError as error:
                trials[number] = Trial(hyperparameters, None, str(error))
        try:
            if detectors:
                first = self._with(detector, sets[0])
                known = self._validation_rows(first, to_fit=False)
                unknown = self._read(first, self.fit_splits.external)
                truth = np.repeat([False, True], [len(known), len(unknown)])
                several = [*detectors.values()]
                sides = (several[0].score_together(several, rows.unlabelled()) for rows in (known, unknown))
                for number, pair in zip(detectors, zip(*sides, strict=True), strict=True):
                    trials[number] = Trial(sets[number], auroc(np.concatenate(pair), truth))
        except EvaluationError as error:
            for number in detectors:
                trials[number] = Trial(sets[number], None, str(error))
        return trials

    def _try_on_errors(self, detector: Detector, sets: Sequence[Mapping[str, float]]) -> list[Trial]:
        """Compute the AUROC of right against wrong in-distribution rows, as in BROAD (section 3, tables 6 and 7).

        The paper does not say on which rows. Here the detector is fitted on half of the rows that it is fitted on in
        the end, and judged on the other half (ours). No trial is made if that half has no wrong row, or no right one.
        """
        rows = self._validation_rows(self._with(detector, sets[0]), to_fit=False)
        fits = in_fit_half(rows.ids.tolist(), rows.labels)
        judged = rows.take(~fits)
        wrong = predicted(judged) != judged.labels
        trials: list[Trial] = []
        for values in sets if 0 < wrong.sum() < len(wrong) else ():
            try:
                tried = self._with(detector, values).fit(rows.take(fits))
                trials.append(Trial(values, auroc(tried.score(judged.unlabelled()), wrong)))
            except EvaluationError as error:
                trials.append(Trial(values, None, str(error)))
        return trials

    def _with(self, detector: Detector, hyperparameters: Mapping[str, float]) -> Detector:
        """Return an unfitted detector with some hyperparameters, and the run's seed if it has one."""
        seeded = {"seed": self.cache.seed} if "seed" in detector.arguments() else {}
        return detector.clone(**hyperparameters, **seeded)

    def _fitted_on_its_rows(self, detector: Detector) -> Detector:
        if detector.fits_on == "none":
            return detector.fit(self.cache.no_rows())
        key = (detector.fits_on == "train" and self.fit_splits.train) or self.fit_splits.validation
        if key is None:
            train = f"{TRAIN}, " if detector.fits_on == "train" else ""
            raise EvaluationError(
                f"{self.cache.store.root} has no features of {train}{VALIDATION} or {HELD_OUT}, on which "
                f"{detector.name} is fitted. Extract such a split."
            )
        if key == self.fit_splits.validation:
            features = self._validation_rows(detector, to_fit=detector.fits_on == "train")
        else:
            features = _in_distribution(self._read(detector, key))
        if not len(features):
            raise EvaluationError(
                f"{'/'.join(key)} has no labelled rows to fit {detector.name} on. Choose another config with "
                "--fit-splits (in Python fit_configs=)."
            )
        return detector.fit(features)

    def _validation_rows(self, detector: Detector, *, to_fit: bool) -> Features:
        """Read in-distribution validation rows: those to fit on in place of training rows, or those to tune on."""
        assert self.fit_splits.validation is not None
        features = self._read(detector, self.fit_splits.validation)
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
