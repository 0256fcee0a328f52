"""Loads the features that a detector needs: one model's, several models', or outputs of a second pass.

Tested by `tests/evaluation/scoring/test_fit.py`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

from unknown_detection.evaluation.detectors import METHODS
from unknown_detection.evaluation.detectors.base import Detector
from unknown_detection.evaluation.detectors.images import ImageDetector
from unknown_detection.evaluation.detectors.logits import average
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.runner import Runner
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.models.features import Features
from unknown_detection.evaluation.releases import Key
from unknown_detection.terminal.progress import bar

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
        folder = Path(tempfile.mkdtemp(prefix="features-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return FeatureStore(folder, self.store.identity)

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
