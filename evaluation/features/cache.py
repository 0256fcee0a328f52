"""What detectors read of a split: features of one model, of several, or what another look at the images saw.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.detectors.base import Method
from evaluation.detectors.fitting import predicted
from evaluation.detectors.images import ImageMethod
from evaluation.detectors.looks import Look
from evaluation.detectors.members import average
from evaluation.errors import EvaluationError
from evaluation.features.extract import Columns, Runner
from evaluation.features.store import Store
from evaluation.models.features import Features
from evaluation.progress import bar

Key = tuple[str, str]
"""Config and split."""

_KEPT = 3
"""Splits whose features stay in memory: those that detectors are fitted on, tuned on and tuned against."""


@dataclass
class Shelf:
    """Gives a method what it reads of a split.

    Attributes:
        store: features of the model.
        members: features of more models of the same release, for ensembles.
        runner: shows the model the images again; None where only what was seen before can be read.
        seed: of everything random.
        quiet: no bars.
    """

    store: Store
    members: Sequence[Store] = ()
    runner: Runner | None = None
    seed: int = 0
    quiet: bool = False
    _features: dict[Key, Features] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for member in self.members:
            member.check_release(self.store.identity.release_digest)

    def check(self, method: Method) -> None:
        """Refuse a method that cannot be used with what there is.

        Raises:
            EvaluationError: it reads several models or images, and they are not given, or the model is none for it.
        """
        if method.reads == "members" and not self.members:
            raise EvaluationError(
                f"expected features of more models for {method.name}, found those of one; extract with each model "
                "into a folder of its own and give the others with --member."
            )
        if isinstance(method, ImageMethod):
            if self.runner is None:
                raise EvaluationError(
                    f"expected --release, --model and --weights for {method.name}, which shows the model the images "
                    "again, found none; give them, or leave it out."
                )
            method.look.check(self.runner.model)

    def features(self, key: Key) -> Features:
        """What the model left of a split."""
        if key not in self._features:
            if len(self._features) >= _KEPT:
                self._features.pop(next(iter(self._features)))
            self._features[key] = self.store.features(*key)
        return self._features[key]

    def read(self, method: Method, hyperparameters: Mapping[str, float], key: Key) -> Features:
        """What a method reads of a split, but for other detectors' scores.

        Raises:
            EvaluationError: it is not there, and cannot be computed.
        """
        if isinstance(method, ImageMethod):
            return self._looked(method.look, hyperparameters, key)
        if method.reads == "members":
            return average([self.features(key), *(member.features(*key) for member in self.members)])
        return self.features(key)

    def predictions(self, method: Method, hyperparameters: Mapping[str, float], key: Key) -> npt.NDArray[np.int64]:
        """The class of each row, shape (n,): the method's own prediction where it has one, else the model's."""
        own = method.reads == "members" or (isinstance(method, ImageMethod) and method.look.predicts)
        features = self.read(method, hyperparameters, key) if own else self.features(key)
        return predicted(features)

    def _looked(self, look: Look, hyperparameters: Mapping[str, float], key: Key) -> Features:
        values = {**hyperparameters, **({"seed": self.seed} if look.random else {})}
        name = "-".join([look.name, *(f"{which}={value:g}" for which, value in sorted(values.items()))])
        parts = self.store.look(name, *key)
        if not parts.is_whole():
            runner = self.runner
            assert runner is not None  # `check` refuses the method otherwise

            def run(images: Any, ids: Sequence[str]) -> Columns:
                return look.run(runner.model, images, ids, seed=self.seed, **hyperparameters)

            rows = len(runner.release.rows(*key))
            with self.store.writing(), bar(rows, f"{name} {'/'.join(key)}", quiet=self.quiet) as progress:
                runner.run(run, parts, *key, progress.update, self.store.others(*key, look=name))
        columns = parts.read()
        ids, labels = columns.pop("id"), columns.pop("label")
        none = np.empty((len(ids), 0))
        logits = columns.pop("logits", none)
        return Features(ids, labels, logits, none, (), scores=columns)
