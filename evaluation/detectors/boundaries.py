"""Distance of the penultimate features to the decision boundaries of the last layer: fDBD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from evaluation.detectors.base import Method, Scores
from evaluation.detectors.fitting import require_fit
from evaluation.detectors.rows import Doubles, as_float64, chunks, require_width, score_in_chunks
from evaluation.errors import EvaluationError
from evaluation.models.features import Features, Head


@dataclass(frozen=True)
class BoundaryDistance:
    """A fitted fDBD detector.

    Attributes:
        weight: shape (C, D).
        bias: shape (C,).
        inverse: 1 / ||w_c - w_k||, shape (C, C), with 0 on the diagonal.
        origin: the features' mean, or zeros, shape (D,).
    """

    weight: Doubles
    bias: Doubles
    inverse: Doubles
    origin: Doubles

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        classes, width = self.weight.shape
        require_width("penultimate features", features.penultimate, width)
        return score_in_chunks(
            self._distance,
            {"penultimate features": features.penultimate},
            features.ids,
            doubles_per_row=2 * width + 4 * classes,
        )

    def _distance(self, z: Doubles) -> Scores:
        logits = z @ self.weight.T + self.bias
        predicted = logits.argmax(axis=1)
        ahead = logits.max(axis=1, keepdims=True) - logits
        total = np.einsum("nc,nc->n", ahead, self.inverse[predicted])
        deviation = np.linalg.norm(z - self.origin, axis=1)
        with np.errstate(divide="ignore"):  # a row at the origin is refused by the check of all scores
            scores: Scores = -total / (deviation * (len(self.weight) - 1))
        return scores


def make_fdbd(features: Features, head: Head, centred: float = 1) -> BoundaryDistance:
    """Mean distance to the other classes' decision boundaries, relative to the deviation from the mean (fDBD).

    Formula: -1/(C - 1) sum_{c != y} (l_y - l_c) / (||w_y - w_c||_2 ||z - u||_2), with l = W z + b, y = argmax l and u
    the mean of the fitted rows' features.
    Source: Liu and Qin, Fast Decision Boundary based Out-of-Distribution Detector, ICML 2024, section 3. In OpenOOD
    its authors also divide by ||z||_2 instead, and choose between both on validation data: `centred` does.

    Args:
        features: in-distribution rows.
        head: the last layer.
        centred: 1 divides by the distance to the mean, 0 by the features' norm.

    Raises:
        EvaluationError: two classes have the same weights, there is one class only, `centred` is neither 0 nor 1, or
            rows are unlabelled or of another width.
    """
    require_fit(features, head, "fdbd")
    if centred not in (0, 1):
        raise EvaluationError(f"centred of fdbd must be 0 or 1, found {centred}; give one of them.")
    weight, bias = head.weight.astype(np.float64), head.bias.astype(np.float64)
    apart = cdist(weight, weight)
    np.fill_diagonal(apart, np.inf)
    if not apart.min() > 0 or len(weight) < 2:
        raise EvaluationError(
            "Two classes of the last layer have the same weights, or there is one only, so that there is no boundary "
            "between classes. Leave fdbd out."
        )
    origin = np.zeros(weight.shape[1])
    if centred:
        for rows in chunks(len(features), 2 * weight.shape[1]):
            origin += as_float64("penultimate features", features.penultimate, rows, features.ids).sum(axis=0)
        origin /= len(features)
    return BoundaryDistance(weight, bias, 1 / apart, origin)


FDBD = Method("fdbd", "fDBD", "Liu and Qin 2024, section 3", make_fdbd, fit="train", grid={"centred": (1, 0)})
