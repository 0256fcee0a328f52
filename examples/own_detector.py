"""Two detectors of one's own, in a file of one's own.

    python -m unknown_detection evaluate score --features build/features --detector examples/own_detector.py:spread \
        --detector examples/own_detector.py:NEAREST_MEAN --detectors msp --out build/scores.parquet

A higher score means more unknown. `Features` has the arrays `logits`, `penultimate`, `blocks`, `ids` and `labels`.
"""

import numpy as np

from unknown_detection import Features, Head, Method


def spread(features: Features) -> np.ndarray:
    """Negative standard deviation of each row's logits: a function is enough where nothing is fitted."""
    return -features.logits.astype(np.float64).std(axis=1)


class NearestMean:
    """Distance to the nearest of some points, by the norm of the given order."""

    def __init__(self, means: np.ndarray, order: float) -> None:
        self.means, self.order = means, order

    def score(self, features: Features) -> np.ndarray:
        """Return one score per row; shape (n,)."""
        differences = features.penultimate[:, None].astype(np.float64) - self.means
        return np.linalg.norm(differences, ord=self.order, axis=2).min(axis=1)


def make_nearest_mean(features: Features, head: Head, order: float = 2.0) -> NearestMean:
    """Fit the mean features of each class to labelled training rows."""
    classes = range(features.logits.shape[1])
    means = [features.penultimate[features.labels == number].mean(axis=0, dtype=np.float64) for number in classes]
    return NearestMean(np.array(means), order)


# The name in results and in --set nearest_mean.order=1; the title and the source are for tables. `grid` has what a
# search on external_validation tries, the default first.
NEAREST_MEAN = Method(
    "nearest_mean",
    "Nearest mean",
    "an example of ours",
    make_nearest_mean,
    fit="train",
    grid={"order": (2.0, 1.0)},
)
