"""Fits detectors and searches their hyperparameters, with the features that each needs, and scores rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import DETECTORS, arrays
from unknown_detection.evaluation.detectors.base import Detector, Scores, Together
from unknown_detection.evaluation.detectors.choice import Chosen, choose
from unknown_detection.evaluation.detectors.logits import average
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.runner import fill
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.metrics.metrics import auroc
from unknown_detection.evaluation.models.features import Features
from unknown_detection.evaluation.releases import Key
from unknown_detection.evaluation.same import same_model
from unknown_detection.evaluation.scoring.fit_splits import (
    EXTERNAL,
    HELD_OUT,
    TRAIN,
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
    """Loads the features that detectors need, and caches them in memory.

    `members` are features of further models on the same release, for ensembles.
    """

    store: FeatureStore
    members: Sequence[FeatureStore] = ()
    seed: int = 0
    quiet: bool = False

    def __post_init__(self) -> None:
        models = [store.identity for store in (self.store, *self.members)]
        for number, member in enumerate(self.members, start=1):
            member.require_release(self.store.identity.release_digest)
            if any(same_model(of, models[number]) for of in models[:number]):
                raise EvaluationError(
                    f"The features in {member.root} are of the same model as others that were given. Give each member "
                    "of an ensemble once."
                )
        self._features = lru_cache(_KEPT)(self.store.features)

    def check(self, detector: Detector) -> None:
        """Refuse a detector that needs what was not given: several models, the images, or another kind of model."""
        if detector.reads == "members" and not self.members:
            raise EvaluationError(
                f"{detector.name} needs features of several models, but only one was given. Extract features with "
                "each model into a folder of its own, and give all of them."
            )
        if detector.image_pass is not None:
            if self.store.runner is None:
                raise EvaluationError(
                    f"{detector.name} runs the model on the images again, but only features were given. Name the "
                    "release and the model, too (in Python to extract, which finds all there), or leave the detector "
                    "out."
                )
            detector.image_pass.check(self.store.runner.model)

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
        """Return features of no rows, with the model's last layer, for detectors that learn only from this layer."""
        head, classes = self.store.head(), len(self.store.identity.label_names)
        width = 0 if head is None else head.weight.shape[1]
        ids, labels = np.array([], dtype=np.str_), np.array([], dtype=np.int64)
        return Features(ids, labels, np.empty((0, classes)), np.empty((0, width)), (), head=head)

    @cached_property
    def _of_this_run(self) -> FeatureStore:
        """The store of passes that code of the user's defines: nothing says whether it is the same in another run."""
        return FeatureStore.begin(None, self.store.identity)

    def _pass_features(self, detector: Detector, key: Key) -> Features:
        image_pass, features = detector.image_pass, self.features(key)
        parameters = image_pass.parameters(detector)
        if image_pass.is_ordinary(parameters):
            return replace(features, passed={"logits": features.logits})
        values = {**parameters, **({"seed": self.seed} if image_pass.random else {})}
        described = (f"{parameter}={repr(value).removesuffix('.0')}" for parameter, value in sorted(values.items()))
        built_in = image_pass in _BUILT_IN
        name = "-".join([image_pass.name, *described, *([] if built_in else [detector.name])])
        store = self.store if built_in else self._of_this_run
        table, ids = store.passes(name), self.store.ids(*key)
        if not table.has("/".join(key), ids).all():
            runner = self.store.runner
            assert runner is not None  # `check` refuses the detector otherwise
            run = partial(image_pass.run, seed=self.seed, **parameters)
            rows = len(runner.release.rows(*key))
            with store.writing(), bar(rows, f"{name} {'/'.join(key)}", quiet=self.quiet) as progress:
                fill(runner, run, table, [key], progress.update)
        return replace(features, passed=table.read("/".join(key), ids))


def in_words(hyperparameters: Mapping[str, float]) -> str:
    """Write hyperparameters as `k=50 weight=0.5`."""
    return " ".join(f"{name}={value:g}" for name, value in hyperparameters.items())


def _score_each(detectors: Sequence[Detector], features: Features) -> list[Scores]:
    if isinstance(detectors[0], Together):
        return detectors[0].score_together(detectors, features)
    return [detector.score(features) for detector in detectors]


class Rows(NamedTuple):
    """Selects the in-distribution rows of a split, or of the half of it that a mask marks."""

    key: Key
    name: str
    half: Mask | None = None

    def mask(self, features: Features) -> Mask:
        """Return which rows of a split's features they are; some splits mix in-distribution and unknown rows."""
        return features.labels >= 0 if self.half is None else self.half & (features.labels >= 0)

    def take(self, features: Features) -> Features:
        """Select these rows among a split's features."""
        mask = self.mask(features)
        return features if mask.all() else features.take(mask)


@dataclass
class Scorer:
    """Fits each of the chosen detectors once, on `fit_splits`, and scores splits.

    `search` looks for hyperparameters, else the defaults count; `log` receives a line about each detector that cannot
    be searched, and `doing` what is done now. `trials` are lines on each set of hyperparameters that was tried, by
    detector, and `hyperparameters` those that each is fitted with, whatever a fit makes of them. `rows` are what
    detectors are fitted on, by `Detector.fits_on`; hyperparameters and thresholds are chosen on those of "validation".
    """

    cache: FeatureCache
    fit_splits: FitSplits
    chosen: Chosen = field(default_factory=lambda: choose(None))
    search: bool = True
    log: Log = lambda text: None
    doing: Log = lambda text: None
    trials: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    hyperparameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    _fitted: dict[str, Detector] = field(default_factory=dict)
    _scores: dict[tuple[str, Key], Scores] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = {"train": self.fit_splits.train, "validation": self.fit_splits.validation}
        self.rows = {name: Rows(key, "/".join(key)) for name, key in keys.items() if key is not None}
        if self.fit_splits.train is None and self.fit_splits.validation is not None:
            key, name, _ = self.rows["validation"]
            features = self.cache.features(key)
            counts = np.unique(features.labels[features.labels >= 0], return_counts=True)[1]
            if len(counts) and (counts > 1).all():  # every class needs a row for either half
                half = in_fit_half(features.ids.tolist(), features.labels)
                self.rows["train"] = Rows(key, f"{name} (fit half)", half)
                self.rows["validation"] = Rows(key, f"{name} (tune half)", ~half)

    def words(self, rows: str) -> str:
        """Name a set of rows, a key of `rows`; empty if there is no such set."""
        return self.rows[rows].name if rows in self.rows else ""

    @property
    def halved(self) -> Rows | None:
        """The half of a split that detectors are fitted on because there are no training rows; None if there are."""
        rows = self.rows.get("train")
        return None if rows is None or rows.half is None else rows

    def fit(self, name: str) -> Detector:
        """Fit a detector with its best hyperparameters, after the detectors whose scores it combines."""
        if name not in self._fitted:
            detector = self.chosen.scored.get(name) or self.chosen.parts[name]
            self.cache.check(detector)
            for base in detector.base_methods:
                self.fit(base)
            chosen = self._choose(detector)
            self.doing(f"fitting {name}")
            unfitted = self._with(detector, chosen)
            self.hyperparameters[name] = unfitted.parameters()
            self._fitted[name] = self._fitted_on_its_rows(unfitted)
        return self._fitted[name]

    def score(self, name: str, key: Key) -> Scores:
        """Return a detector's scores of a split, shape (n,), higher = more unknown; computed once."""
        if (name, key) not in self._scores:
            detector = self.fit(name)
            self.doing(f"scoring {'/'.join(key)} with {name}")
            self._scores[name, key] = detector.score(self._read(detector, key).unlabelled())
        return self._scores[name, key]

    def predictions(self, name: str, key: Key) -> npt.NDArray[np.int64]:
        """Return the predicted classes of a split, shape (n,); -1 where a detector predicts none of the classes."""
        detector = self.fit(name)
        return detector.predict(self._read(detector, key).unlabelled())

    def forget(self, key: Key) -> None:
        """Free the cached scores of a split."""
        self._scores = {pair: scores for pair, scores in self._scores.items() if pair[1] != key}

    def _read(self, detector: Detector, key: Key) -> Features:
        features = self.cache.read(detector, key)
        scores = {base: self.score(base, key) for base in detector.base_methods}
        return replace(features, scores=scores) if scores else features

    def _choose(self, detector: Detector) -> Mapping[str, float]:
        """Return the hyperparameters with the greatest AUROC of their trials, or without any trial the defaults."""
        grid = detector.search
        sets = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        if len(sets) == 1 or not self.search:
            return sets[0]
        self.doing(f"searching {len(sets)} settings of {detector.name}")
        by_errors = detector.chosen_by == "errors"
        found: list[tuple[float | None, str]] = []
        if self.fit_splits.validation and (by_errors or self.fit_splits.external):
            groups = [sets] if isinstance(detector, Together) else [[hyperparameters] for hyperparameters in sets]
            found = [of_set for group in groups for of_set in self._try(detector, group, by_errors=by_errors)]
        if not found:
            sides = f"right and of wrong rows of {VALIDATION}" if by_errors else f"both {VALIDATION} and {EXTERNAL}"
            self.log(
                f"note: {detector.name}: using the default hyperparameters, because there are no features of {sides} "
                "to search on"
            )
            return sets[0]
        areas = [-1.0 if area is None else area for area, _ in found]
        if max(areas) < 0:
            raise EvaluationError(found[0][1])
        best = areas.index(max(areas))  # the first of equals, so that the default wins ties
        external = self.fit_splits.external
        of = external[1] if external and not by_errors else f"errors in {VALIDATION}"
        self.trials[detector.name] = [
            {"detector": detector.name, "hyperparameters": in_words(values), "auroc_of": of}
            | {"auroc": area, "chosen": int(number == best), "problem": problem}
            for number, (values, (area, problem)) in enumerate(zip(sets, found, strict=True))
        ]
        return sets[best]

    def _try(
        self, detector: Detector, sets: Sequence[Mapping[str, float]], *, by_errors: bool
    ) -> list[tuple[float | None, str]]:
        """Return the AUROC of a set of hyperparameters or the problem; of several for detectors that share their work.

        The AUROC is that of validation against external rows, as in the unified benchmark (section 4); or that of
        right against wrong in-distribution rows, as in BROAD (section 3, tables 6 and 7). That paper does not say on
        which rows: here the detector is fitted on half of the rows that it is fitted on in the end, and judged on the
        other half (ours), and no trial is made if that half has no wrong row, or no right one.
        """
        made: dict[int, Detector] = {}
        found: list[tuple[float | None, str]] = [(None, "")] * len(sets)
        try:
            first = self._with(detector, sets[0])
            known = self._rows(first, "validation")
            fitted_on = None
            if by_errors:
                half = in_fit_half(known.ids.tolist(), known.labels)
                fitted_on, judged = known.take(half), [known.take(~half)]
                truth = arrays.predicted(judged[0]) != judged[0].labels
                if not 0 < truth.sum() < len(truth):
                    return []
            else:
                assert self.fit_splits.external is not None
                judged = [known, self._read(first, self.fit_splits.external)]
                truth = np.repeat([False, True], list(map(len, judged)))
            for number, hyperparameters in enumerate(sets):
                try:
                    one = self._with(detector, hyperparameters)
                    made[number] = self._fitted_on_its_rows(one) if fitted_on is None else one.fit(fitted_on)
                except EvaluationError as error:
                    found[number] = None, str(error)
            if made:
                sides = [_score_each([*made.values()], rows.unlabelled()) for rows in judged]
                for number, scores in zip(made, zip(*sides, strict=True), strict=True):
                    found[number] = auroc(np.concatenate(scores), truth), ""
        except EvaluationError as error:
            found = [(None, problem or str(error)) for _, problem in found]
        return found

    def _with(self, detector: Detector, hyperparameters: Mapping[str, float]) -> Detector:
        """Return an unfitted detector with some hyperparameters, and the run's seed if it has one."""
        seeded = {"seed": self.cache.seed} if "seed" in detector.arguments() else {}
        return detector.clone(**hyperparameters, **seeded)

    def _fitted_on_its_rows(self, detector: Detector) -> Detector:
        if detector.fits_on == "none":
            return detector.fit(self.cache.no_rows())
        features = self._rows(detector, detector.fits_on)
        if not len(features):
            raise EvaluationError(
                f"{'/'.join(self.rows[detector.fits_on].key)} has no labelled rows to fit {detector.name} on. Choose "
                "other configs with fit_configs=."
            )
        return detector.fit(features)

    def _rows(self, detector: Detector, rows: str) -> Features:
        """Read rows of `rows` for a detector; refuse rows that there are not."""
        if rows in self.rows:
            return self.rows[rows].take(self._read(detector, self.rows[rows].key))
        if self.fit_splits.validation is not None:
            raise EvaluationError(
                f"{'/'.join(self.fit_splits.validation)} has a class of one row only, or no labelled rows, so it "
                "cannot be divided into rows to fit on and rows to tune on. Extract the split train, or more rows of "
                "validation."
            )
        train = f"{TRAIN}, " if rows == "train" else ""
        raise EvaluationError(
            f"{self.cache.store.root} has no features of {train}{VALIDATION} or {HELD_OUT}, on which {detector.name} "
            "is fitted. Extract such a split."
        )
