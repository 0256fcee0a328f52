"""Scores of the penultimate features and the logits: SHE, ViM and its residual, GradNorm, fDBD.

In the formulas z (n, D) are the penultimate features, l (n, C) the logits, W (C, D) and b (C,) the last linear layer.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lstsq
from scipy.linalg.blas import dsyrk
from scipy.spatial.distance import cdist
from scipy.special import softmax

from unknown_detection.evaluation.detectors.base import (
    FEATURES,
    LOGITS,
    Doubles,
    Range,
    RowDetector,
    Scores,
    class_means,
    dots,
    labels_to_fit,
    layer,
    mean_features,
    pieces,
)
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Head


class SHE(RowDetector):
    """SHE: negative inner product with the predicted class's pattern.

    Formula: -z . S_y with y = argmax l and S_c the mean features of correctly classified fitted rows of class c; of
    all fitted rows of class c if none is (ours).
    Source: Zhang et al., Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization with Modern
    Hopfield Energy, ICLR 2023, section 3 (inner product version).
    """

    name, title, source = "she", "SHE", "Zhang et al. 2023, section 3"
    cost = "values"
    compared = "pytorch-ood 0.4"
    fits_on = "train"
    inputs = (FEATURES, LOGITS)

    def _learn(self, features: Features, head: Head | None) -> None:
        labels, self.remark = labels_to_fit(features, 1, self.name)
        classes = features.logits.shape[1]
        self.patterns = class_means(features.penultimate, labels, classes)

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        return -dots(z, self.patterns[logits.argmax(axis=1)])


class _Subspace(RowDetector):
    """A detector that reads the norm of the features outside their principal subspace."""

    fits_on = "train"
    reads_head = True
    ranges: ClassVar = {"dimension": "0 to below the number of features"}
    dimension: int | None

    def _learn(self, features: Features, head: Head) -> None:
        """Find the origin, shape (D,), and a basis of the principal subspace's complement, shape (D, D - d)."""
        weight, bias = layer(head)
        width = weight.shape[1]
        principal = _principal_dimension(width) if self.dimension is None else int(self.dimension)
        if not 0 <= principal < width or self.dimension not in (None, principal):
            raise EvaluationError(
                f"The dimension of {self.name} must be a whole number from 0 to {width - 1}, found {self.dimension}; "
                "give another."
            )
        self.origin = _least_norm(weight, -bias)
        # One triangle of it, which `eigh` reads: half the products.
        scatter = np.zeros((width, width), order="F")
        for _, z in pieces(features.penultimate):
            scatter = dsyrk(1.0, (z - self.origin).T, 1.0, scatter, lower=1, overwrite_c=1)
        eigenvalues, eigenvectors = np.linalg.eigh(scatter)  # ascending
        self.residual = np.ascontiguousarray(eigenvectors[:, : width - principal])
        if eigenvalues[width - principal - 1] <= width * np.finfo(float).eps * eigenvalues[-1]:
            raise EvaluationError(
                f"All {len(features):,} rows lie in the principal subspace of {principal} dimensions that {self.name} "
                "fits. Fit on more rows, or give a smaller dimension."
            )

    def _norms(self, z: Doubles) -> Scores:
        return np.linalg.norm((z - self.origin) @ self.residual, axis=1)


def _least_norm(matrix: Doubles, values: Doubles) -> Doubles:
    """Return the x of least norm with matrix @ x = values, or next to them, as the pseudoinverse gives it."""
    with contextlib.suppress(np.linalg.LinAlgError):
        # By the matrix of inner products in a fifth of the time, with a second step that takes back its roundings.
        factor, x = cho_factor(matrix @ matrix.T), np.zeros(matrix.shape[1])
        for _ in range(2):
            x += matrix.T @ cho_solve(factor, values - matrix @ x)
        if (np.abs(matrix @ x - values) <= 1e-14 * (np.abs(matrix) @ np.abs(x) + np.abs(values))).all():
            return x
    return np.asarray(lstsq(matrix, values, cond=1e-15, lapack_driver="gelsy")[0])  # the cutoff is `pinv`'s


@dataclass
class Residual(_Subspace):
    """Norm of the features outside the principal subspace, the part of ViM that reads no logits.

    Formula: ||R^T (z - u)||_2 with u, R and the dimension as in `ViM`.
    Source: Wang et al. 2022, section 3 and the rows "Residual" of its tables; Ndiour, Ahuja and Tickoo,
    Out-Of-Distribution Detection With Subspace Techniques And Probabilistic Modeling Of Features, 2020.
    """

    name, title, source = "residual", "Residual", "Wang et al. 2022, section 3"
    inputs = (FEATURES,)

    dimension: int | None = None

    def _rows(self, z: Doubles) -> Scores:
        return self._norms(z)


@dataclass
class ViM(_Subspace):
    """ViM: virtual logit of the residual, against the energy.

    Formula: alpha ||R^T (z - u)|| - log sum_c exp l_c, with u = -W^+ b (pseudoinverse), R the eigenvectors of the D -
    d smallest eigenvalues of (Z - u)^T (Z - u) / n, alpha = sum max_c l_c / sum ||R^T (z - u)|| over the fitted rows,
    which must not all lie in the principal subspace. The `dimension` d is at least 0 and below D; by default 1000 from
    D = 2048 on, 512 from D = 768 on, else D / 2.
    Source: Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, CVPR 2022, section 4.
    """

    name, title, source = "vim", "ViM", "Wang et al. 2022, section 4"
    compared = "pytorch-ood 0.4"
    inputs = (FEATURES, LOGITS)

    dimension: int | None = None

    def _learn(self, features: Features, head: Head) -> None:
        super()._learn(features, head)
        logits = sum(float(chunk.max(axis=1).sum()) for _, chunk in pieces(features.logits))
        norms = sum(float(self._norms(z).sum()) for _, z in pieces(features.penultimate))
        self.alpha = logits / norms

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        return self.alpha * self._norms(z) + energy(logits)


def _principal_dimension(width: int) -> int:
    # The authors' code uses 1000 of 2048 and 512 of 768 features; the rule for narrower layers is ours.
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2


class GradNorm(RowDetector):
    """GradNorm of the last layer's weights, at temperature 1.

    Formula: -||z||_1 ||softmax(l) - 1/C||_1, the negative L1 norm of the gradient with respect to W of the mean
    cross-entropy between the uniform distribution and the softmax; this gradient is an outer product of the two.
    Source: Huang et al., On the Importance of Gradients for Detecting Distributional Shifts in the Wild, NeurIPS 2021,
    sections 3 and 5 (last layer, temperature 1).
    """

    name, title, source = "gradnorm", "GradNorm", "Huang et al. 2021, section 3"
    cost = "values"
    compared = "pytorch-ood 0.4"
    reads_head = True
    inputs = (FEATURES, LOGITS)

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        distances = np.abs(softmax(logits, axis=1) - 1 / logits.shape[1]).sum(axis=1)
        return -np.abs(z).sum(axis=1) * distances


@dataclass
class FDBD(RowDetector):
    """Mean distance to the other classes' decision boundaries, relative to the deviation from the mean (fDBD).

    Formula: -1/(C - 1) sum_{c != y} (l_y - l_c) / (||w_y - w_c||_2 ||z - u||_2), with l = W z + b, y = argmax l and u
    the mean of the fitted rows' features.
    Source: Liu and Qin, Fast Decision Boundary based Out-of-Distribution Detector, ICML 2024, section 3. In OpenOOD
    its authors also divide by ||z||_2 instead, and choose between both on validation data: `centred` does. It is 1 for
    the distance to the mean, 0 for the features' norm.
    """

    name, title, source = "fdbd", "fDBD", "Liu and Qin 2024, section 3"
    compared = "pytorch-ood 0.4"
    fits_on = "train"
    reads_head = True
    inputs = (FEATURES,)
    search: ClassVar = {"centred": (1, 0)}
    ranges: ClassVar = {"centred": Range("0 or 1", lambda value: value in (0, 1))}

    centred: int = 1

    def _learn(self, features: Features, head: Head) -> None:
        self.weight, self.bias = layer(head)
        distances = cdist(self.weight, self.weight)
        np.fill_diagonal(distances, np.inf)
        if not distances.min() > 0 or len(distances) < 2:
            raise EvaluationError(
                "Two classes of the last layer have the same weights, or there is one only, so that there is no "
                "boundary between classes. Leave fdbd out."
            )
        self.inverse = 1 / distances
        self.origin = mean_features(features) if self.centred else 0.0

    def _rows(self, z: Doubles) -> Scores:
        logits = z @ self.weight.T
        logits += self.bias
        place = logits.argmax(axis=1)
        margins = logits[np.arange(len(z)), place, None] - logits
        relative = dots(margins, self.inverse[place])
        centred = z - self.origin
        deviation = np.sqrt(dots(centred, centred))
        with np.errstate(divide="ignore"):  # a row at the origin is refused by the check of all scores
            return -relative / (deviation * (len(self.bias) - 1))
