"""Mean softmax outputs by the class of the images: figure 7 of the unified benchmark (Kim, Koo and Hwang 2023).

Tested by `tests/evaluation/commands/test_softmax.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import softmax

from unknown_detection.csv_text import csv_text
from unknown_detection.evaluation.detectors.members import average
from unknown_detection.evaluation.detectors.rows import Doubles, pieces
from unknown_detection.evaluation.features.cache import Key
from unknown_detection.evaluation.features.store import FeatureStore
from unknown_detection.evaluation.files import file_name, write_text
from unknown_detection.evaluation.releases import Release


@dataclass(frozen=True)
class MeanSoftmax:
    """Mean softmax outputs of a split.

    Attributes:
        classes: the K classes of its images, by name; those that are taken for the same known class stand together.
        images: number of images of each, shape (K,).
        known: the C known classes, by name.
        values: mean softmax output of each, shape (K, C); rows sum to 1.
    """

    classes: tuple[str, ...]
    images: tuple[int, ...]
    known: tuple[str, ...]
    values: Doubles


def mean_softmax(stores: Sequence[FeatureStore], release: Release, key: Key) -> MeanSoftmax:
    """Average the softmax outputs of the images of each class.

    Args:
        stores: features of the model; of several, for an ensemble, whose outputs are the mean of theirs.
        release: the release that they are of.
        key: config and split.

    Raises:
        EvaluationError: features are of another release, or missing, or differ in rows.
    """
    for store in stores:
        store.require_release(release.digest)
    members = [store.features(*key) for store in stores]
    features = members[0] if len(members) == 1 else average(members)
    rows = release.rows(*key)
    # Datasets may share ids of classes.
    ids = list(zip(rows["source"].to_pylist(), rows["class_id"].to_pylist(), strict=True))
    names = dict(zip(ids, rows["class_name"].to_pylist(), strict=True))
    classes = sorted(names)
    numbers = {id_: number for number, id_ in enumerate(classes)}
    place = np.array([numbers[id_] for id_ in ids])
    sums = np.zeros((len(classes), features.logits.shape[1]))
    for part, logits in pieces("logits", features.logits, features.ids):
        np.add.at(sums, place[part], softmax(logits, axis=1))
    images = np.bincount(place)
    values = sums / images[:, None]
    order = np.lexsort((-values.max(axis=1), values.argmax(axis=1)))
    known = _known_names(stores[0].identity.label_names, release, key[0])
    shared = len(set(names.values())) < len(names)
    said = [":".join(id_) if shared else names[id_] for id_ in classes]
    return MeanSoftmax(tuple(said[row] for row in order), tuple(images[order].tolist()), known, values[order])


def write_softmax(folder: Path, key: Key, found: MeanSoftmax) -> str:
    """Write it as CSV: a line for each class, with the number of its images and a column for each known class.

    Returns:
        The file's name without its ending.
    """
    name = file_name("softmax", *key)
    lines = zip(found.classes, found.images, found.values.tolist(), strict=True)
    text = csv_text([["class", "images", *found.known], *([name, count, *values] for name, count, values in lines)])
    write_text(folder / f"{name}.csv", text)
    return name


def _known_names(labels: Sequence[str], release: Release, config: str) -> tuple[str, ...]:
    """Return the names of a config's labels, which are class ids, from the rows of these classes."""
    named: dict[str, str] = {}
    for split in release.splits(config):
        rows = release.rows(config, split)
        named |= dict(zip(rows["class_id"].to_pylist(), rows["class_name"].to_pylist(), strict=True))
    names = tuple(named.get(label) or label for label in labels)
    return names if len(set(names)) == len(names) else tuple(labels)
