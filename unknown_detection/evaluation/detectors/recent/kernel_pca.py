"""CoP and CoRP: reconstruction errors of kernel principal component analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknown_detection.evaluation.detectors.base import (
    FEATURES,
    POSITIVE,
    Doubles,
    Range,
    RowDetector,
    Scores,
    at_least,
    pieces,
)
from unknown_detection.evaluation.detectors.neighbors import unit
from unknown_detection.evaluation.models.features import Features, Head

_SHARE = Range("above 0, below 1", lambda value: 0 < value < 1)


@dataclass
class CoP(RowDetector):
    """Norm of the features of length 1 outside their principal subspace: kernel PCA with a cosine kernel (CoP).

    Formula: ||(I - U U^T) (phi(z) - mean)||_2 with phi(z) = z / ||z||_2 and U the first principal directions of the
    fitted rows' phi, as many as hold the share `explained` of their variance.
    Source: Fang et al., Kernel PCA for Out-of-Distribution Detection, NeurIPS 2024, section 3; 0.99 is their share for
    ImageNet, 0.85 that for CIFAR-10, 0.7 that for contrastive features.
    """

    name, title, source = "cop", "CoP", "Fang et al. 2024, section 3"
    compared = "the authors' code (56d348e); scikit-learn"
    fits_on = "train"
    inputs = (FEATURES,)
    search: ClassVar = {"explained": (0.99, 0.5, 0.7, 0.85, 0.9, 0.95)}
    ranges: ClassVar = {"explained": _SHARE}

    explained: float = 0.99

    def _map(self, z: Doubles) -> Doubles:
        return unit(z)

    def _learn(self, features: Features, head: Head | None) -> None:
        width = self._map(features.penultimate[:1].astype(np.float64)).shape[1]
        total, scatter = np.zeros(width), np.zeros((width, width))
        for _, z in pieces(features.penultimate):
            mapped = self._map(z)
            total += mapped.sum(axis=0)
            scatter += mapped.T @ mapped
        self.mean = total / len(features)
        scatter -= np.outer(total, self.mean)  # entries are at most 1, so that little is lost in the difference
        variances, directions = np.linalg.eigh(scatter)  # ascending
        shares = np.cumsum(variances[::-1]) / variances.sum()
        self.rest = np.ascontiguousarray(directions[:, : -1 - int(np.argmax(shares >= self.explained))])

    def _rows(self, z: Doubles) -> Scores:
        return np.linalg.norm((self._map(z) - self.mean) @ self.rest, axis=1)


@dataclass
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
    search: ClassVar = {"explained": (0.5, 0.7, 0.8), "gamma": (3.0, 1.0, 2.0)}
    ranges: ClassVar = {"explained": _SHARE, "gamma": POSITIVE, "frequencies": at_least(2)}

    explained: float = 0.5
    gamma: float = 3.0
    frequencies: int | None = None
    seed: int = 0

    def _learn(self, features: Features, head: Head | None) -> None:
        random, width = np.random.default_rng(self.seed), features.penultimate.shape[1]
        count = 2 * width if self.frequencies is None else int(self.frequencies)
        self.weight = np.sqrt(2 * self.gamma) * random.standard_normal((width, count))
        self.phase = 2 * np.pi * random.random(count)
        super()._learn(features, head)

    def _map(self, z: Doubles) -> Doubles:
        return np.sqrt(2 / len(self.phase)) * np.cos(unit(z) @ self.weight + self.phase)
