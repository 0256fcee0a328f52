"""Scores of the penultimate features and the logits: SHE, ViM and its residual, GradNorm, fDBD.

In the formulas z (n, D) are the penultimate features, l (n, C) the logits, W (C, D) and b (C,) the last linear layer.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from unknown_detection.evaluation.detectors.base import Method, Scores
from unknown_detection.evaluation.detectors.fitting import (
    class_means,
    labels_to_fit,
    layer,
    mean_features,
    require_fit,
    require_labels,
    require_range,
)
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.detectors.rows import FEATURES, LOGITS, Doubles, RowScore, dots, pieces
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Head


def make_she(features: Features, head: Head | None) -> RowScore:
    """SHE: negative inner product with the predicted class's pattern.

    Formula: -z . S_y with y = argmax l and S_c the mean features of correctly classified fitted rows of class c; of
    all fitted rows of class c if none is (ours).
    Source: Zhang et al., Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization with Modern
    Hopfield Energy, ICLR 2023, section 3 (inner product version).
    """
    require_labels(features, "she")
    classes, width = features.logits.shape[1], features.penultimate.shape[1]
    labels, remark = labels_to_fit(features, 1, "she")
    patterns = class_means(FEATURES, features.penultimate, labels, classes, features.ids)

    def score(z: Doubles, logits: Doubles) -> Scores:
        return -dots(z, patterns[logits.argmax(axis=1)])

    return RowScore(score, width, classes, remark=remark)


def make_vim(features: Features, head: Head, dimension: int | None = None) -> RowScore:
    """ViM: virtual logit of the residual, against the energy.

    Formula: alpha ||R^T (z - u)|| - log sum_c exp l_c, with u = -W^+ b (pseudoinverse), R the eigenvectors of the D -
    d smallest eigenvalues of (Z - u)^T (Z - u) / n, alpha = sum max_c l_c / sum ||R^T (z - u)|| over the fitted rows.
    Source: Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, CVPR 2022, section 4.

    Args:
        features: in-distribution rows, which must not all lie in the principal subspace.
        head: the last layer.
        dimension: d, at least 0 and below D; by default 1000 from D = 2048 on, 512 from D = 768 on, else D / 2.
    """
    origin, residual = _fit_residual(features, head, dimension, "vim")
    logits = sum(float(chunk.max(axis=1).sum()) for _, chunk in pieces(LOGITS, features.logits, features.ids))
    norms = sum(
        float(np.linalg.norm((z - origin) @ residual, axis=1).sum())
        for _, z in pieces(FEATURES, features.penultimate, features.ids)
    )
    alpha = logits / norms

    def score(z: Doubles, logits: Doubles) -> Scores:
        scores: Scores = alpha * np.linalg.norm((z - origin) @ residual, axis=1) + energy(logits)
        return scores

    return RowScore(score, len(origin), len(head.weight))


def make_residual(features: Features, head: Head, dimension: int | None = None) -> RowScore:
    """Residual: norm of the features outside the principal subspace, the part of ViM that reads no logits.

    Formula: ||R^T (z - u)||_2 with u, R and the dimension as in `make_vim`.
    Source: Wang et al. 2022, section 3 and the rows "Residual" of its tables; Ndiour, Ahuja and Tickoo,
    Out-Of-Distribution Detection With Subspace Techniques And Probabilistic Modeling Of Features, 2020.
    """
    origin, residual = _fit_residual(features, head, dimension, "residual")
    return RowScore(lambda z: np.linalg.norm((z - origin) @ residual, axis=1), len(origin))


def _principal_dimension(width: int) -> int:
    # The authors' code uses 1000 of 2048 and 512 of 768 features; the rule for narrower layers is ours.
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2


def _fit_residual(features: Features, head: Head, dimension: int | None, detector: str) -> tuple[Doubles, Doubles]:
    """Return the origin of the feature space, (D,), and a basis of the principal subspace's complement, (D, D - d)."""
    require_fit(features, head, detector)
    weight, bias = layer(head)
    width = weight.shape[1]
    principal = _principal_dimension(width) if dimension is None else int(dimension)
    require_range(0 <= principal < width, f"The dimension of {detector} must be from 0 to {width - 1}", principal)
    origin = -(np.linalg.pinv(weight) @ bias)
    scatter = np.zeros((width, width))
    for _, z in pieces(FEATURES, features.penultimate, features.ids):
        centred = z - origin
        scatter += centred.T @ centred
    eigenvalues, vectors = np.linalg.eigh(scatter)
    left = width - principal
    if eigenvalues[:left].max() <= width * np.finfo(float).eps * eigenvalues[-1]:
        raise EvaluationError(
            f"All {len(features):,} rows lie in the principal subspace of {principal} dimensions that {detector} "
            "fits. Fit on more rows, or give a smaller dimension."
        )
    return origin, np.ascontiguousarray(vectors[:, :left])


def make_gradnorm(features: Features | None, head: Head) -> RowScore:
    """GradNorm of the last layer's weights, at temperature 1.

    Formula: -||z||_1 ||softmax(l) - 1/C||_1, the negative L1 norm of the gradient with respect to W of the mean
    cross-entropy between the uniform distribution and the softmax; this gradient is an outer product of the two.
    Source: Huang et al., On the Importance of Gradients for Detecting Distributional Shifts in the Wild, NeurIPS 2021,
    sections 3 and 5 (last layer, temperature 1).
    """
    classes, width = head.weight.shape

    def score(z: Doubles, logits: Doubles) -> Scores:
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        distance = np.abs(odds / odds.sum(axis=1, keepdims=True) - 1 / classes).sum(axis=1)
        scores: Scores = -np.abs(z).sum(axis=1) * distance
        return scores

    return RowScore(score, width, classes)


def make_fdbd(features: Features, head: Head, centred: float = 1) -> RowScore:
    """Mean distance to the other classes' decision boundaries, relative to the deviation from the mean (fDBD).

    Formula: -1/(C - 1) sum_{c != y} (l_y - l_c) / (||w_y - w_c||_2 ||z - u||_2), with l = W z + b, y = argmax l and u
    the mean of the fitted rows' features.
    Source: Liu and Qin, Fast Decision Boundary based Out-of-Distribution Detector, ICML 2024, section 3. In OpenOOD
    its authors also divide by ||z||_2 instead, and choose between both on validation data: `centred` does.

    Args:
        features: in-distribution rows.
        head: the last layer, with different weights for each of at least two classes.
        centred: 1 divides by the distance to the mean, 0 by the features' norm.
    """
    require_fit(features, head, "fdbd")
    require_range(centred in (0, 1), "centred of fdbd must be 0 or 1", centred)
    weight, bias = layer(head)
    apart = cdist(weight, weight)
    np.fill_diagonal(apart, np.inf)
    if not apart.min() > 0 or len(weight) < 2:
        raise EvaluationError(
            "Two classes of the last layer have the same weights, or there is one only, so that there is no boundary "
            "between classes. Leave fdbd out."
        )
    inverse, origin = 1 / apart, mean_features(features) if centred else 0.0

    def score(z: Doubles) -> Scores:
        logits = z @ weight.T + bias
        ahead = logits.max(axis=1, keepdims=True) - logits
        total = dots(ahead, inverse[logits.argmax(axis=1)])
        deviation = np.linalg.norm(z - origin, axis=1)
        with np.errstate(divide="ignore"):  # a row at the origin is refused by the check of all scores
            scores: Scores = -total / (deviation * (len(weight) - 1))
        return scores

    return RowScore(score, weight.shape[1], more=4 * len(weight))


SHE = Method("she", "SHE", "Zhang et al. 2023, section 3", make_she, fit="train")
VIM = Method("vim", "ViM", "Wang et al. 2022, section 4", make_vim, fit="train", reads_head=True)
RESIDUAL = Method("residual", "Residual", "Wang et al. 2022, section 3", make_residual, fit="train", reads_head=True)
GRADNORM = Method("gradnorm", "GradNorm", "Huang et al. 2021, section 3", make_gradnorm, reads_head=True)
FDBD = Method("fdbd", "fDBD", "Liu and Qin 2024, section 3", make_fdbd, "train", {"centred": (1, 0)}, reads_head=True)
