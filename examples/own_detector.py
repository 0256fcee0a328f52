"""Two detectors of one's own, in a file of one's own.

    unknown-detection evaluate score --features build/features --detector examples/own_detector.py:spread \
        --detector examples/own_detector.py:NearestMean --detectors msp --out build/scores.parquet

A higher score means more unknown. `Features` has the arrays `logits`, `penultimate`, `blocks`, `ids` and `labels`.
"""

import numpy as np

from unknown_detection import Detector, Features, Head


def spread(features: Features) -> np.ndarray:
    """Negative standard deviation of each row's logits: a function is enough where nothing is fitted."""
    return -features.logits.astype(np.float64).std(axis=1)


class NearestMean(Detector):
    """Distance to the nearest class mean, by the norm of the given order."""

    name = "nearest_mean"  # in results and in --set nearest_mean.order=1
    fits_on = "train"
    search = {"order": (2.0, 1.0)}  # what a search on external_validation tries, the default first

    def __init__(self, order: float = 2.0) -> None:
        self.order = order

    def fit(self, features: Features, head: Head | None = None) -> "NearestMean":
        """Learn the mean features of each class from labelled training rows."""
        classes = range(features.logits.shape[1])
        means = [features.penultimate[features.labels == number].mean(axis=0, dtype=np.float64) for number in classes]
        self.means = np.array(means)
        return self

    def score(self, features: Features) -> np.ndarray:
        """Return one score per row; shape (n,)."""
        differences = features.penultimate[:, None].astype(np.float64) - self.means
        return np.linalg.norm(differences, ord=self.order, axis=2).min(axis=1)
