"""Mean softmax outputs by the class of the images: figure 7 of the unified benchmark (Kim, Koo and Hwang 2023).

Tested by `tests/evaluation/commands/test_softmax.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.detectors.members import average
from unknown_detection.evaluation.detectors.rows import pieces
from unknown_detection.evaluation.features.cache import Key
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.files import file_name, write_text
from unknown_detection.evaluation.releases import Release


def mean_softmax(stores: Sequence[FeatureStore], release: Release, key: Key) -> pd.DataFrame:
    """Average the softmax outputs of the images of each class of a split.

    With features of several models, the outputs are the mean of theirs, as of an ensemble.

    Returns:
        A line for each class, indexed by its name and its number of images, those that are taken for the same known
        class together; a column for each known class, by name, with the mean of its output. Lines sum to 1.

    Raises:
        EvaluationError: features are of another release, or missing, or differ in rows.
    """
    for store in stores:
        store.require_release(release.digest)
    members = [store.features(*key) for store in stores]
    features = members[0] if len(members) == 1 else average(members)
    outputs = [softmax(logits, axis=1) for _, logits in pieces("logits", features.logits, features.ids)]
    known = _known_names(stores[0].identity.label_names, release, key[0])
    rows = release.rows(*key).select(["source", "class_id", "class_name"]).to_pandas()
    classes = [rows["source"], rows["class_id"]]  # datasets may share ids of classes
    by_class = pd.DataFrame(np.concatenate(outputs), columns=known).groupby(classes)
    names = rows.groupby(classes)["class_name"].last()
    shown = names.tolist() if names.is_unique else [":".join(id_) for id_ in names.index]
    found = by_class.mean()
    found.index = pd.MultiIndex.from_arrays([shown, by_class.size()], names=["class", "images"])
    values = found.to_numpy()
    return found.iloc[np.lexsort((-values.max(axis=1), values.argmax(axis=1)))]


def write_softmax(folder: Path, key: Key, found: pd.DataFrame) -> str:
    """Write it as CSV; returns the file's name without its ending."""
    name = file_name("softmax", *key)
    write_text(
        folder / f"{name}.csv", csv_text([[*found.index.names, *found.columns], *found.reset_index().to_numpy()])
    )
    return name


def _known_names(labels: Sequence[str], release: Release, config: str) -> tuple[str, ...]:
    """Return the names of a config's labels, which are class ids, from the rows of these classes."""
    named: dict[str, str] = {}
    for split in release.splits(config):
        rows = release.rows(config, split)
        named |= dict(zip(rows["class_id"].to_pylist(), rows["class_name"].to_pylist(), strict=True))
    names = tuple(named.get(label) or label for label in labels)
    return names if len(set(names)) == len(names) else tuple(labels)
