"""Two detectors of one's own in one file.

    unknown-detection evaluate score --features build/features --detector examples/own_detector.py:spread \
        --detector examples/own_detector.py:NearestMean --detectors msp --out build/scores.parquet

A higher score means more unknown. `Features` has the arrays `logits`, `penultimate`, `blocks`, `ids` and `labels`.
"""

import numpy as np

from unknown_detection import Detector, Features


def spread(features: Features) -> np.ndarray:
    """Negative standard deviation of each row's logits: a function is enough where nothing is fitted."""
    return -features.logits.astype(np.float64).std(axis=1)


class NearestMean(Detector):
    """Distance to the nearest class mean, by the norm of the given order."""

    name = "nearest_mean"  # in results and in --set nearest_mean.order=1
    search = {"order": (2.0, 1.0)}  # what a search on external_validation tries, the default first

    def __init__(self, order: float = 2.0) -> None:
        self.order = order

    def fit(self, features: Features) -> None:
        """Learn the mean features of each class from labelled training rows."""
        labels, z = features.labels, features.penultimate.astype(np.float64)
        self.means = np.array([z[labels == number].mean(axis=0) for number in np.unique(labels)])

    def score(self, features: Features) -> np.ndarray:
        """Return one score per row; shape (n,)."""
        return np.linalg.norm(features.penultimate[:, None] - self.means, ord=self.order, axis=2).min(axis=1)
