"""OODL: a one-class support vector machine on the features of one block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unknown_detection.evaluation.detectors.base import Method, Scores
from unknown_detection.evaluation.detectors.fitting import require_labels, require_range
from unknown_detection.evaluation.detectors.rows import Doubles, as_float64, require_width, score_in_chunks
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Floats, Head


@dataclass(frozen=True)
class OneClassMachine:
    """A fitted one-class support vector machine with a Gaussian kernel.

    Attributes:
        block: number of the model's block, from 0.
        mean: mean of the fitted features, shape (D,).
        scale: their standard deviation, shape (D,); 1 where it is 0.
        vectors: support vectors, standardized, shape (m, D).
        weights: their positive coefficients, shape (m,).
        gamma: of the kernel exp(-gamma ||x - v||^2).
    """

    block: int
    mean: Doubles
    scale: Doubles
    vectors: Doubles
    weights: Doubles
    gamma: float

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        name, values = _block(features, self.block)
        width = len(self.mean)
        require_width(name, values, width)
        return score_in_chunks(self._sums, {name: values}, features.ids, 3 * width + 2 * len(self.vectors))

    def _sums(self, values: Doubles) -> Scores:
        standard = (values - self.mean) / self.scale
        squares = (standard**2).sum(axis=1)[:, None] + (self.vectors**2).sum(axis=1)
        squares -= 2 * (standard @ self.vectors.T)
        scores: Scores = -np.exp(-self.gamma * np.maximum(squares, 0.0)) @ self.weights
        return scores


def _block(features: Features, number: int) -> tuple[str, Floats]:
    if number >= len(features.blocks):
        raise EvaluationError(
            f"oodl needs features of at least {number + 1} blocks, found {len(features.blocks)}. Extract both splits "
            "with one model, with blocks."
        )
    return f"features of block {number + 1}", features.blocks[number]


def make_oodl(
    features: Features,
    head: Head | None,
    depth: float = 0.0,
    nu: float = 0.001,
    rows: int = 10_000,
    seed: int = 0,
) -> OneClassMachine:
    """One-class support vector machine on a block's standardized features (OODL).

    Formula: -sum_i a_i exp(-g ||x - v_i||^2) with x = (f - mean) / deviation, v_i and a_i the support vectors and
    coefficients, g = 1 / (D var(x)); the offset, a constant, is omitted.
    Source: Abdelzad et al., Detecting Out-of-Distribution Inputs in Deep Neural Networks Using an Early-Layer Output,
    2019, section 3; kernel, g, nu = 0.001 and the standardization as in their code. They choose the layer by the error
    on unknown validation rows, and find early ones best; here `depth` is searched.

    Args:
        features: in-distribution rows, with blocks.
        head: not read.
        depth: position of the block, from 0 for the first to 1 for the last; the nearest is used.
        nu: upper bound of the fraction of fitted rows outside, in (0, 1].
        rows: maximum number of rows to fit on, because the time grows with its square; drawn by id, whatever their
            order.
        seed: random seed of that draw.
    """
    require_labels(features, "oodl")
    allowed = 0 <= depth <= 1 and 0 < nu <= 1 and rows >= 2
    rule = "oodl needs depth from 0 to 1, nu above 0 and up to 1, and rows of at least 2"
    require_range(allowed, rule, depth, nu, rows)
    from sklearn.svm import OneClassSVM  # optional, and slow to import

    number = round(depth * (len(features.blocks) - 1)) if features.blocks else 0
    name, values = _block(features, number)
    drawn = np.argsort(features.ids, kind="stable")
    if len(drawn) > rows:
        drawn = drawn[np.sort(np.random.default_rng(seed).choice(len(drawn), int(rows), replace=False))]
    fitted = as_float64(name, values[drawn], slice(None), features.ids[drawn])
    mean, deviation = fitted.mean(axis=0), fitted.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    standard = (fitted - mean) / scale
    if not standard.var() > 0:
        raise EvaluationError(
            f"Features of block {number + 1} are equal in all {len(fitted):,} rows, so oodl cannot be fitted; fit on "
            "more rows."
        )
    gamma = 1 / (standard.shape[1] * standard.var())
    machine = OneClassSVM(kernel="rbf", nu=nu, gamma=gamma).fit(standard)
    return OneClassMachine(number, mean, scale, machine.support_vectors_, machine.dual_coef_[0], float(gamma))


_GRID = {"depth": (0.0, 0.25, 0.5, 0.75, 1.0), "nu": (0.001, 0.01, 0.1)}
OODL = Method(
    "oodl", "OODL", "Abdelzad et al. 2019, section 3", make_oodl, fit="train", grid=_GRID, requires=("sklearn",)
)
