"""Scores of the penultimate features and the logits: SHE, ViM and its residual, GradNorm.

In the formulas z (n, D) are the penultimate features, l (n, C) the logits, W (C, D) and b (C,) the last linear layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.detectors.base import Method, Scores
from evaluation.detectors.fitting import class_means, labels_if_correct, require_fit, require_rows_of_each_class
from evaluation.detectors.logits import energy
from evaluation.detectors.rows import Doubles, as_float64, chunks, require_width, score_in_chunks
from evaluation.errors import EvaluationError
from evaluation.models.features import Features, Head


@dataclass(frozen=True)
class SimplifiedHopfieldEnergy:
    """A fitted SHE detector.

    Attributes:
        patterns: mean features of each class, shape (C, D).
    """

    patterns: Doubles

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        classes, width = self.patterns.shape
        require_width("penultimate features", features.penultimate, width)
        require_width("logits", features.logits, classes)
        return score_in_chunks(
            lambda z, logits: -np.einsum("nd,nd->n", z, self.patterns[logits.argmax(axis=1)]),
            {"penultimate features": features.penultimate, "logits": features.logits},
            features.ids,
            doubles_per_row=3 * width + 2 * classes,
        )


def make_she(features: Features, head: Head) -> SimplifiedHopfieldEnergy:
    """SHE: negative inner product with the predicted class's pattern.

    Formula: -z . S_y with y = argmax l and S_c the mean features of correctly classified fitted rows of class c.
    Source: Zhang et al., Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization with Modern
    Hopfield Energy, ICLR 2023, section 3 (inner product version).

    Args:
        features: labelled in-distribution rows.
        head: the last layer.

    Raises:
        EvaluationError: a class has no correctly classified row, or rows are unlabelled or of another width.
    """
    require_fit(features, head, "she")
    labels, classes = labels_if_correct(features), features.logits.shape[1]
    require_rows_of_each_class(labels, classes, 1, "she", "correctly classified rows")
    return SimplifiedHopfieldEnergy(
        class_means("penultimate features", features.penultimate, labels, classes, features.ids)
    )


@dataclass(frozen=True)
class VirtualLogit:
    """A fitted ViM detector.

    Attributes:
        origin: origin of the feature space, shape (D,).
        residual: orthonormal basis of the complement of the principal subspace, shape (D, D - d).
        alpha: scales the residual so that its mean norm equals the mean greatest logit.
        classes: number C of logits.
    """

    origin: Doubles
    residual: Doubles
    alpha: float
    classes: int

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        width, left = self.residual.shape
        require_width("penultimate features", features.penultimate, width)
        require_width("logits", features.logits, self.classes)
        return score_in_chunks(
            lambda z, logits: self.alpha * np.linalg.norm((z - self.origin) @ self.residual, axis=1) + energy(logits),
            {"penultimate features": features.penultimate, "logits": features.logits},
            features.ids,
            doubles_per_row=2 * width + 2 * left + 6 * self.classes,
        )


def _principal_dimension(width: int) -> int:
    # The authors' code uses 1000 of 2048 and 512 of 768 features; the rule for narrower layers is ours.
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2


def make_vim(features: Features, head: Head, dimension: int | None = None) -> VirtualLogit:
    """ViM: virtual logit of the residual, against the energy.

    Formula: alpha ||R^T (z - u)|| - log sum_c exp l_c, with u = -W^+ b (pseudoinverse), R the eigenvectors of the D -
    d smallest eigenvalues of (Z - u)^T (Z - u) / n, alpha = sum max_c l_c / sum ||R^T (z - u)|| over the fitted rows.
    Source: Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, CVPR 2022, section 4.

    Args:
        features: in-distribution rows.
        head: the last layer.
        dimension: d, at least 0 and below D; by default 1000 from D = 2048 on, 512 from D = 768 on, else D / 2.

    Raises:
        EvaluationError: the residual is zero, or rows are unlabelled or of another width.
    """
    origin, residual = _fit_residual(features, head, dimension, "vim")
    logits, norms = 0.0, 0.0
    for rows in chunks(len(features), 2 * len(origin) + 2 * residual.shape[1]):
        logits += float(as_float64("logits", features.logits, rows, features.ids).max(axis=1).sum())
        z = as_float64("penultimate features", features.penultimate, rows, features.ids)
        norms += float(np.linalg.norm((z - origin) @ residual, axis=1).sum())
    return VirtualLogit(origin, residual, logits / norms, len(head.weight))


@dataclass(frozen=True)
class Residual:
    """A fitted Residual detector.

    Attributes:
        origin: origin of the feature space, shape (D,).
        residual: orthonormal basis of the complement of the principal subspace, shape (D, D - d).
    """

    origin: Doubles
    residual: Doubles

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        width, left = self.residual.shape
        require_width("penultimate features", features.penultimate, width)
        return score_in_chunks(
            lambda z: np.linalg.norm((z - self.origin) @ self.residual, axis=1),
            {"penultimate features": features.penultimate},
            features.ids,
            doubles_per_row=2 * width + 2 * left,
        )


def make_residual(features: Features, head: Head, dimension: int | None = None) -> Residual:
    """Residual: norm of the features outside the principal subspace, the part of ViM that reads no logits.

    Formula: ||R^T (z - u)||_2 with u and R as in `make_vim`.
    Source: Wang et al. 2022, section 3 and the rows "Residual" of its tables; Ndiour, Ahuja and Tickoo,
    Out-Of-Distribution Detection With Subspace Techniques And Probabilistic Modeling Of Features, 2020.

    Args:
        features: in-distribution rows.
        head: the last layer.
        dimension: as in `make_vim`.

    Raises:
        EvaluationError: as `make_vim`.
    """
    return Residual(*_fit_residual(features, head, dimension, "residual"))


def _fit_residual(features: Features, head: Head, dimension: int | None, detector: str) -> tuple[Doubles, Doubles]:
    """Return the origin of the feature space, and a basis of the complement of the principal subspace."""
    require_fit(features, head, detector)
    weight, bias = head.weight.astype(np.float64), head.bias.astype(np.float64)
    width = weight.shape[1]
    principal = _principal_dimension(width) if dimension is None else int(dimension)
    if not 0 <= principal < width:
        raise EvaluationError(
            f"The dimension of {detector} must be from 0 to {width - 1}, one less than the features' width, found "
            f"{principal}; give another."
        )
    origin = -(np.linalg.pinv(weight) @ bias)
    scatter = np.zeros((width, width))
    for rows in chunks(len(features), 2 * width):
        centred = as_float64("penultimate features", features.penultimate, rows, features.ids) - origin
        scatter += centred.T @ centred
    eigenvalues, vectors = np.linalg.eigh(scatter)
    left = width - principal
    if eigenvalues[:left].max() <= width * np.finfo(float).eps * eigenvalues[-1]:
        raise EvaluationError(
            f"All {len(features):,} rows lie in the principal subspace of {principal} dimensions that {detector} "
            "fits. Fit on more rows, or give a smaller dimension."
        )
    return origin, np.ascontiguousarray(vectors[:, :left])


@dataclass(frozen=True)
class GradientNorm:
    """GradNorm.

    Attributes:
        width: number D of features.
        classes: number C of logits.
    """

    width: int
    classes: int

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        require_width("penultimate features", features.penultimate, self.width)
        require_width("logits", features.logits, self.classes)
        return score_in_chunks(
            gradnorm,
            {"penultimate features": features.penultimate, "logits": features.logits},
            features.ids,
            doubles_per_row=2 * self.width + 6 * self.classes,
        )


def gradnorm(z: Doubles, logits: Doubles) -> Scores:
    """GradNorm of the last layer's weights, at temperature 1.

    Formula: -||z||_1 ||softmax(l) - 1/C||_1, the negative L1 norm of the gradient with respect to W of the mean
    cross-entropy between the uniform distribution and the softmax; this gradient is an outer product of the two.
    Source: Huang et al., On the Importance of Gradients for Detecting Distributional Shifts in the Wild, NeurIPS 2021,
    sections 3 and 5 (last layer, temperature 1).

    Args:
        z: penultimate features, shape (n, D).
        logits: shape (n, C).

    Returns:
        Shape (n,); higher = more unknown.
    """
    classes = logits.shape[1]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    distance = np.abs(odds / odds.sum(axis=1, keepdims=True) - 1 / classes).sum(axis=1)
    scores: Scores = -np.abs(z).sum(axis=1) * distance
    return scores


def make_gradnorm(features: Features | None, head: Head) -> GradientNorm:
    """Build the `gradnorm` score of the last layer.

    Args:
        features: not read.
        head: the last layer.
    """
    classes, width = head.weight.shape
    return GradientNorm(width, classes)


SHE = Method("she", "SHE", "Zhang et al. 2023, section 3", make_she, fit="train")
VIM = Method("vim", "ViM", "Wang et al. 2022, section 4", make_vim, fit="train")
RESIDUAL = Method("residual", "Residual", "Wang et al. 2022, section 3", make_residual, fit="train")
GRADNORM = Method("gradnorm", "GradNorm", "Huang et al. 2021, section 3", make_gradnorm)
