"""The receipt of a model: what is known of its weights, and its accuracy beside the published one.

A wrong preprocessing or label map shows here, before any detector is scored.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.features.store import Store

TEST = "test"
"""Name of the splits whose labelled rows the accuracy is taken on."""

TOLERANCE = 1.0
"""Points of accuracy by which a model may differ from its published figure; ours. Published figures have two decimals,
and other decoders or library versions move them by a tenth or two."""


def write_receipt(store: Store, keys: Iterable[tuple[str, str]], *, accept: bool) -> list[str]:
    """Return what is known of a model, in lines, with its accuracy on known test rows.

    The published accuracy is one on all classes of the model. It is compared only where every class of the model
    is a class of the release and has rows: among fewer classes a model is right more often.

    Args:
        store: the model's features.
        keys: the splits (config, split) that may be read; only those named `TEST` count.
        accept: return the lines in any case.

    Raises:
        EvaluationError: the accuracy differs by more than `TOLERANCE` points from a published one of the same classes.
    """
    identity = store.identity
    source = dict(identity.source)
    published, logits, width = (source.pop(name, "") for name in ("accuracy", "logits", "width"))
    lines = [f"weights  {', '.join(f'{name} {text}' for name, text in sorted(source.items()))}"] if source else []
    lines.append(f"input    {', '.join(f'{name} {value}' for name, value in sorted(identity.preprocessing.items()))}")
    classes = len(identity.label_names)
    for config, split in keys:
        if split != TEST:
            continue
        features = store.features(config, split)
        known = features.labels >= 0
        labels = features.labels[known]
        if not len(labels):
            continue
        accuracy = 100 * float(np.mean(features.logits[known].argmax(axis=1) == labels))
        line = f"accuracy {accuracy:.2f} % of {len(labels):,} rows of {config}/{split}"
        whole = len(np.unique(labels)) == classes and int(width or classes) == classes
        if published and not whole:
            line += (
                f"; published: {published} % on all {int(width or classes):,} classes, not comparable with "
                f"{len(np.unique(labels)):,} of them"
            )
        elif published:
            line += f"; published: {published} %"
        lines.append(line)
        if published and whole and not accept and abs(accuracy - float(published)) > TOLERANCE:
            raise EvaluationError(
                f"{identity.model} is right on {accuracy:.2f} % of the {len(labels):,} rows of {config}/{split}, but "
                f"{published} % are published for its weights. Check the weights, their preprocessing and the order "
                "of the classes, or go on with --accept."
            )
    if logits:
        lines.append(f"classes  {classes:,} of the model's {int(width):,} logits")
    return lines
