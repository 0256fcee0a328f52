"""The receipt of a model: its weights, preprocessing, and accuracy on known test rows beside the published one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.features.store import FeatureStore

TEST = "test"
"""Name of the splits whose labelled rows the accuracy is taken on."""

TOLERANCE = 1.0
"""Points of accuracy by which a model may differ from its published figure beside chance; ours. Published figures have
two decimals, and other decoders or library versions move them by a tenth or two."""

QUANTILE = 1.96
"""Standard errors that chance may add: the normal distribution has 95 % within."""


@dataclass(frozen=True)
class Receipt:
    """What is known of a model in `lines` for people, and where its accuracy differs too much, in clauses."""

    lines: list[str]
    differences: list[str]

    def require(self, accepted: Collection[str]) -> None:
        """Check that every difference was accepted; `EvaluationError` otherwise."""
        for difference in self.differences:
            if difference not in accepted:
                raise EvaluationError(
                    f"{difference}. Check the weights, their preprocessing and the order of the classes, or go on "
                    "with --accept."
                )


def tolerance(published: float, rows: int) -> float:
    """Return the points by which an accuracy of some rows may differ from a published one, in percent.

    Beside `TOLERANCE`, these are `QUANTILE` standard errors of a share p of n independent rows, sqrt(p (1 - p) / n),
    where p is the published accuracy: the test of a proportion by its score (Wilson, "Probable inference, the law of
    succession, and statistical inference", Journal of the American Statistical Association 22, 1927).
    """
    share = published / 100
    return TOLERANCE + QUANTILE * 100 * math.sqrt(share * (1 - share) / rows)


def receipt(store: FeatureStore, keys: Iterable[tuple[str, str]]) -> Receipt:
    """Return what is known of a model, with its accuracy on the known rows of those splits that are named `TEST`.

    The published accuracy is one on all classes of the model. It is compared only where every class of the model
    is a class of the release and has rows: among fewer classes a model is right more often.
    """
    identity = store.identity
    source = dict(identity.source)
    published, logits, width = (source.pop(name, "") for name in ("accuracy", "logits", "width"))
    lines = [f"weights  {', '.join(f'{name} {text}' for name, text in sorted(source.items()))}"] if source else []
    lines.append(f"input    {', '.join(f'{name} {value}' for name, value in sorted(identity.preprocessing.items()))}")
    classes = len(identity.label_names)
    differences = []
    for config, split in keys:
        if split != TEST:
            continue
        features = store.features(config, split)
        known = features.labels >= 0
        labels = features.labels[known]
        if not len(labels):
            continue
        accuracy = 100 * float(np.mean(features.logits[known].argmax(axis=1) == labels))
        present, model_classes = len(np.unique(labels)), int(width or classes)
        line = f"accuracy {accuracy:.2f} % of {len(labels):,} rows of {config}/{split}"
        line += f"; published: {published} %" if published else ""
        if published and not present == classes == model_classes:
            line += f" on all {model_classes:,} classes, not comparable with {present:,} of them"
        lines.append(line)
        if published and present == classes == model_classes:
            allowed = tolerance(float(published), len(labels))
            if abs(accuracy - float(published)) > allowed:
                differences.append(
                    f"{identity.model} is right on {accuracy:.2f} % of the {len(labels):,} rows of {config}/{split}, "
                    f"but {published} % are published for its weights, {allowed:.1f} points more or less allowed"
                )
    if logits:
        lines.append(f"classes  {classes:,} of the model's {int(width):,} logits")
    return Receipt(lines, differences)
