"""OpenMax: the probability of an unknown class, from the distances of logits to the classes' mean logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import RowDetector, Scores, setting
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features, Integers

# Two rows are equally far from their mean, but fitting needs distances that differ.
_LEAST_ROWS = 3


class OpenMax(RowDetector):
    """OpenMax: log odds of the unknown class.

    Formula: for the alpha classes of greatest logits v_i, ranks i = 1..alpha, w_i = F_i(d_i) (alpha + 1 - i) / alpha
    with F_i the Weibull distribution of the `tail` largest distances of class i's fitted rows to their mean, and d_i
    the row's distance to it. Then v_0 = sum v_i w_i, v'_i = v_i (1 - w_i), and the score is v_0 - log sum_c exp v'_c:
    the log odds of softmax(v_0, v')_0, which would round to 1 for many rows. Distances are between logits, w_e |.|_2 +
    w_c cosine. Predictions are those of softmax(v_0, v'), with -1 for the unknown class.

    Source: Bendale and Boult, Towards Open Set Deep Networks, CVPR 2016, algorithms 1 and 2, with F in place of the
    exponential printed in algorithm 2, as in the authors' code; means over correctly classified rows. The weights of
    the distances, the translation and the search for alpha and the tail are those of the unified benchmark's code
    (table 5), which takes the rank weights above for ImageNet and 0.5 for every revised class of CIFAR.

    At least three rows of each class are needed. Of a class with fewer than three correctly classified ones, all rows
    count (ours).

    Args:
        revised: alpha; values above C mean C.
        tail: number of a class's rows to fit the distribution on; all if it has fewer.
        euclidean_weight: w_e.
        cosine_weight: w_c; one of the two is above 0.
        rank_weight: a weight in place of (alpha + 1 - i) / alpha; 0 for these.
        translation: where a tail is shifted to start before F_i is fitted. 1 is the default of libmr 0.1.9,
            the release on PyPI, and so the unified benchmark's; 10,000 that of libMR before, which OD-test and
            pytorch-ood keep. It makes the shape parameter large and the fit nearly a Gumbel distribution of minima.
    """

    name, title, source = "openmax", "OpenMax", "Bendale and Boult 2016, algorithms 1 and 2"
    compared = "pytorch-ood 0.4; libMR"
    at_once = 256  # each with `revised` copies of its logits

    revised: int = setting(10, 1, 5, 20, 30, 40, allowed=ranges.at_least(1, "1 to the number of classes"))
    tail: int = setting(20, 2, 5, 10, 30, 40, allowed=ranges.at_least(2))
    euclidean_weight: float = setting(0.005, allowed=ranges.at_least(0))
    cosine_weight: float = setting(1.0, allowed=ranges.at_least(0))
    rank_weight: float = setting(0.0, allowed=ranges.Range("0 to 1; 0 for weights by rank", ranges.SHARE.allows))
    translation: float = setting(
        1.0,
        allowed=ranges.Range(
            "above 0; 1 as libmr 0.1.9 and the unified benchmark, 10000 as older libMR and pytorch-ood",
            ranges.POSITIVE.allows,
        ),
    )

    def _learn(self, features: Features) -> None:
        weights = self.euclidean_weight, self.cosine_weight
        classes = features.logits.shape[1]
        labels, self.remark = arrays.labels_to_fit(features, _LEAST_ROWS, self.name)
        self.means = arrays.class_means(features.logits, labels, classes)
        distances = np.empty(len(features))
        for rows, logits in arrays.pieces(features.logits):
            distances[rows] = _distances(logits, self.means[features.labels[rows]], *weights)
        largest = _largest(distances[labels >= 0], labels[labels >= 0], classes, int(self.tail))
        equal = np.flatnonzero(np.nanmin(largest, axis=1) == np.nanmax(largest, axis=1))
        if len(equal):
            raise EvaluationError(
                f"openmax cannot be fitted: the {int((~np.isnan(largest[equal[0]])).sum())} largest distances of "
                f"class {equal[0]} are equal. Fit on more rows, or leave it out."
            )
        self.tails = fit_tails(largest, self.translation)
        self._alpha = min(int(self.revised), classes)

    def _rows(self, logits: Doubles) -> Scores:
        unknown, revised = self._revise(logits)
        return unknown - logsumexp(revised, axis=1)

    def _classes(self, logits: Doubles) -> Integers:
        """Return the class of the greatest revised logit, shape (n,); -1 where the unknown class has the greatest."""
        unknown, revised = self._revise(logits)
        return np.where(unknown > revised.max(axis=1), -1, revised.argmax(axis=1))

    def _revise(self, logits: Doubles) -> tuple[Doubles, Doubles]:
        """Move a part of the greatest logits to the unknown class; return its logit (n,) and the others (n, C)."""
        rows = np.arange(len(logits))[:, None]
        greatest = np.argpartition(logits, -self._alpha, axis=1)[:, -self._alpha :]
        greatest = greatest[rows, np.argsort(-logits[rows, greatest], axis=1, kind="stable")]
        rank_weights = self.rank_weight or np.arange(self._alpha, 0, -1) / self._alpha
        weights = self.euclidean_weight, self.cosine_weight
        distances = _distances(logits[:, None, :], self.means[greatest], *weights)
        outlying = -np.expm1(-np.exp(self.tails.log_hazard(distances, greatest)))  # far from the mean it is 1
        moved = logits[rows, greatest] * outlying * rank_weights
        revised = logits.copy()
        revised[rows, greatest] -= moved
        return moved.sum(axis=1), revised


def _distances(logits: Doubles, means: Doubles, euclidean_weight: float, cosine_weight: float) -> Doubles:
    """Return distances along the last axis of broadcastable arrays."""
    norms = np.linalg.norm(logits, axis=-1) * np.linalg.norm(means, axis=-1)
    cosine_distances = 1 - (logits * means).sum(axis=-1) / norms
    return euclidean_weight * np.linalg.norm(logits - means, axis=-1) + cosine_weight * cosine_distances


def _largest(distances: Doubles, labels: Integers, classes: int, count: int) -> Doubles:
    """Return the `count` largest distances of each class, shape (C, count), NaN if a class has fewer."""
    descending = distances[np.lexsort((-distances, labels))]
    largest = np.full((classes, count), np.nan)
    starts = np.bincount(labels, minlength=classes).cumsum()[:-1]
    for row, of_class in zip(largest, np.split(descending, starts), strict=True):
        row[: len(of_class)] = of_class[:count]
    return largest


@dataclass(frozen=True)
class Tails:
    """One Weibull distribution for each of C classes, over distances shifted by `translation` - least.

    `least` and `greatest` are the distances at the tail's ends, `shape` the parameter k, and `log_scale` the log of
    the scale parameter divided by the greatest shifted distance; all of shape (C,).
    """

    translation: float
    least: Doubles
    greatest: Doubles
    shape: Doubles
    log_scale: Doubles

    def log_hazard(self, distances: Doubles, classes: npt.NDArray[np.int64]) -> Doubles:
        """Compute log (x / scale)^k of distances and their classes, of any one shape.

        The cumulative probability is 1 - exp(-(x / scale)^k). Minus infinity where the shifted distance is not
        positive.
        """
        span = self.translation + self.greatest[classes] - self.least[classes]
        # Relative to the greatest, not to 0: k is of the size of the translation, and amplifies every lost digit.
        relative = np.maximum((distances - self.greatest[classes]) / span, -1.0)
        with np.errstate(divide="ignore"):
            place = np.log1p(relative)
        return self.shape[classes] * (place - self.log_scale[classes])


def fit_tails(tails: Doubles, translation: float) -> Tails:
    """Fit each class's Weibull distribution by maximum likelihood.

    With u = log x, the shape k solves sum e^(k u) u / sum e^(k u) - 1/k = mean u, whose left side increases with k;
    the scale is then (mean x^k)^(1/k). All classes are solved together by bisection in log k.

    Source: the likelihood equations of the two-parameter Weibull distribution (Cohen, Technometrics 7, 1965).

    `tails` are the largest distances of each class, two different ones at least, shape (C, m), padded with NaN.
    """
    present = ~np.isnan(tails)
    least, greatest = np.nanmin(tails, axis=1), np.nanmax(tails, axis=1)
    span = translation + greatest - least
    logs = np.where(present, np.log1p(np.where(present, tails - greatest[:, None], 0.0) / span[:, None]), -np.inf)
    finite = np.where(present, logs, 0.0)
    count = present.sum(axis=1)
    mean = finite.sum(axis=1) / count

    # The shape is the inverse of the spread of log(distance): these bounds allow tails whose width is 1e-10 to 1e+6 of
    # their position.
    low, high = np.full(len(tails), np.log(1e-6)), np.full(len(tails), np.log(1e10))
    for _ in range(100):
        middle = (low + high) / 2
        shape = np.exp(middle)
        weights = np.exp(shape[:, None] * logs)
        excess = (weights * finite).sum(axis=1) / weights.sum(axis=1) - 1 / shape - mean
        low, high = np.where(excess < 0, middle, low), np.where(excess < 0, high, middle)
    shape = np.exp((low + high) / 2)
    log_scale = np.log(np.exp(shape[:, None] * logs).sum(axis=1) / count) / shape
    return Tails(translation, least, greatest, shape, log_scale)
