"""Scores by the features' principal subspace and what is outside it: the residual, ViM, NECO, CoP and CoRP.

In the formulas z (n, D) are the penultimate features, l (n, C) the logits, W (C, D) and b (C,) the last linear layer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lstsq
from scipy.linalg.blas import dsyrk

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import RowDetector, Scores, setting
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features, Floats


def moments(values: Floats, of: Callable[[Doubles], Doubles]) -> tuple[Doubles, Doubles]:
    """Return the sum of the rows X = of(values), shape (D,), and of X^T X the lower triangle, which `eigh` reads."""
    scattered: Any = None
    sums = []
    for _, chunk in arrays.pieces(values):
        mapped = of(chunk)
        sums.append(mapped.sum(axis=0))
        scattered = dsyrk(1.0, mapped.T, 1.0, scattered, lower=1, overwrite_c=1)
    return np.sum(sums, axis=0), scattered


def principal(scattered: Doubles, explained: float) -> tuple[Doubles, Doubles]:
    """Return the first principal directions, as many as hold a share of the variance, and the others; as columns."""
    variances, directions = np.linalg.eigh(scattered)  # ascending
    shares = np.cumsum(variances[::-1]) / variances.sum()
    others = len(variances) - 1 - int(np.argmax(shares >= explained))
    return directions[:, others:], np.ascontiguousarray(directions[:, :others])


class Residual(RowDetector):
    """Norm of the features outside the principal subspace, the part of ViM that reads no logits.

    Formula: ||R^T (z - u)||_2 with u, R and the dimension as in `ViM`.
    Source: Wang et al. 2022, section 3 and the rows "Residual" of its tables; Ndiour, Ahuja and Tickoo,
    Out-Of-Distribution Detection With Subspace Techniques And Probabilistic Modeling Of Features, 2020.
    """

    name, title, source = "residual", "Residual", "Wang et al. 2022, section 3"
    reads_head = True

    dimension: int | None = setting(None, allowed="0 to below the number of features")

    def _learn(self, features: Features) -> None:
        """Find the origin, shape (D,), and a basis of the principal subspace's complement, shape (D, D - d)."""
        width = self.matrix.shape[1]
        dimension = _principal_dimension(width) if self.dimension is None else int(self.dimension)
        if not 0 <= dimension < width or self.dimension not in (None, dimension):
            raise EvaluationError(
                f"The dimension of {self.name} must be a whole number from 0 to {width - 1}, found {self.dimension}; "
                "give another."
            )
        self.origin = _least_norm(self.matrix, -self.bias)
        _, scattered = moments(features.penultimate, lambda z: z - self.origin)
        eigenvalues, eigenvectors = np.linalg.eigh(scattered)  # ascending
        self.residual = np.ascontiguousarray(eigenvectors[:, : width - dimension])
        if eigenvalues[width - dimension - 1] <= width * np.finfo(float).eps * eigenvalues[-1]:
            raise EvaluationError(
                f"All {len(features):,} rows lie in the principal subspace of {dimension} dimensions that {self.name} "
                "fits. Fit on more rows, or give a smaller dimension."
            )

    def _rows(self, z: Doubles) -> Scores:
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


def _principal_dimension(width: int) -> int:
    # The authors' code uses 1000 of 2048 and 512 of 768 features; the rule for narrower layers is ours.
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2


class ViM(Residual):
    """ViM: virtual logit of the residual, against the energy.

    Formula: alpha ||R^T (z - u)|| - log sum_c exp l_c, with u = -W^+ b (pseudoinverse), R the eigenvectors of the D -
    d smallest eigenvalues of (Z - u)^T (Z - u) / n, alpha = sum max_c l_c / sum ||R^T (z - u)|| over the fitted rows,
    which must not all lie in the principal subspace. The `dimension` d is at least 0 and below D; by default 1000 from
    D = 2048 on, 512 from D = 768 on, else D / 2.
    Source: Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, CVPR 2022, section 4.
    """

    name, title, source = "vim", "ViM", "Wang et al. 2022, section 4"
    compared = "pytorch-ood 0.4"

    def _learn(self, features: Features) -> None:
        super()._learn(features)
        logits = sum(float(chunk.max(axis=1).sum()) for _, chunk in arrays.pieces(features.logits))
        norms = sum(float(super(ViM, self)._rows(z).sum()) for _, z in arrays.pieces(features.penultimate))
        self.alpha = logits / norms

    def _rows(self, z: Doubles, *logits: Doubles) -> Scores:
        return self.alpha * super()._rows(z) + energy(logits[0])


class NECO(RowDetector):
    """Negative share of the features in their principal subspace, times the greatest logit (NECO).

    Formula: -||P x||_2 / ||x||_2 max_c l_c with x = (z - mean) / deviation and P the first principal directions of the
    fitted rows' x, as many as hold the share `explained` of their variance.
    Source: Ben Ammar et al., NECO: Neural Collapse Based Out-of-distribution Detection, ICLR 2024, section 4, equation
    6. The authors' code multiplies by the greatest logit except for ResNets (`times_logit` 0). It takes 100
    directions; that they hold 0.9 of the variance, whatever the width, is Müller and Hein's (2025, in their code).
    """

    name, title, source = "neco", "NECO", "Ben Ammar et al. 2024, equation 6"
    compared = "Müller and Hein's code (53de550); scikit-learn"

    explained: float = setting(0.9, 0.5, 0.8, 0.95, 0.99, allowed=ranges.BETWEEN)
    times_logit: int = setting(1, 0, allowed=ranges.SWITCH)

    def _learn(self, features: Features) -> None:
        self.mean = arrays.mean_features(features)
        _, scattered = moments(features.penultimate, lambda z: z - self.mean)
        deviation = np.sqrt(np.diag(scattered) / len(features))
        self.scale = np.where(deviation > 0, deviation, 1.0)
        self.directions, _ = principal(scattered / np.outer(self.scale, self.scale), self.explained)

    def _rows(self, z: Doubles, logits: Doubles) -> Scores:
        standard = (z - self.mean) / self.scale
        lengths = np.linalg.norm(standard, axis=1)
        inside = np.linalg.norm(standard @ self.directions, axis=1)
        shares = np.divide(inside, lengths, out=np.zeros_like(inside), where=lengths > 0)
        return -shares * logits.max(axis=1) if self.times_logit else -shares


class CoP(RowDetector):
    """Norm of the features of length 1 outside their principal subspace: kernel PCA with a cosine kernel (CoP).

    Formula: ||(I - U U^T) (phi(z) - mean)||_2 with phi(z) = z / ||z||_2 and U the first principal directions of the
    fitted rows' phi, as many as hold the share `explained` of their variance.
    Source: Fang et al., Kernel PCA for Out-of-Distribution Detection, NeurIPS 2024, section 3; 0.99 is their share for
    ImageNet, 0.85 that for CIFAR-10, 0.7 that for contrastive features.
    """

    name, title, source = "cop", "CoP", "Fang et al. 2024, section 3"
    compared = "the authors' code (56d348e); scikit-learn"

    explained: float = setting(0.99, 0.5, 0.7, 0.85, 0.9, 0.95, allowed=ranges.BETWEEN)
    _map = staticmethod(arrays.unit)

    def _learn(self, features: Features) -> None:
        total, scattered = moments(features.penultimate, self._map)
        self.mean = total / len(features)
        scattered -= np.outer(total, self.mean)  # entries are at most 1, so that little is lost in the difference
        _, self.rest = principal(scattered, self.explained)

    def _rows(self, z: Doubles) -> Scores:
        return np.linalg.norm((self._map(z) - self.mean) @ self.rest, axis=1)


class CoRP(CoP):
    """Kernel PCA with a cosine and a Gaussian kernel by random Fourier features (CoRP).

    Formula: as `CoP` with phi(z) = sqrt(2/M) cos(A z / ||z||_2 + u), A (M, D) drawn from N(0, 2 gamma) and u from [0,
    2 pi]: inner products of phi are about exp(-gamma ||a - b||^2) of the features of length 1.
    Source: Fang et al. 2024, section 4; explained = 0.5, gamma = 3 and M = 2 D = 4096 are theirs for ImageNet, 0.8, 2
    and 4 D = 2048 those for CIFAR-10, gamma = 1 that for contrastive features.

    Args:
        explained: share of the variance in the principal subspace.
        gamma: width of the Gaussian kernel.
        frequencies: M, the number of random features; 2 D by default.
        seed: random seed of A and u.
    """

    name, title, source = "corp", "CoRP", "Fang et al. 2024, section 4"
    compared = CoP.compared

    explained: float = setting(0.5, 0.7, 0.8, allowed=ranges.BETWEEN)
    gamma: float = setting(3.0, 1.0, 2.0, allowed=ranges.POSITIVE)
    frequencies: int | None = setting(None, allowed=ranges.at_least(2))
    seed: int = 0

    def _learn(self, features: Features) -> None:
        random, width = np.random.default_rng(self.seed), features.penultimate.shape[1]
        count = 2 * width if self.frequencies is None else int(self.frequencies)
        self.weight = np.sqrt(2 * self.gamma) * random.standard_normal((width, count))
        self.phase = 2 * np.pi * random.random(count)
        super()._learn(features)

    def _map(self, z: Doubles) -> Doubles:
        return np.sqrt(2 / len(self.phase)) * np.cos(arrays.unit(z) @ self.weight + self.phase)
