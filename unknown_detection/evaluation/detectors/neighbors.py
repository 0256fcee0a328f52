"""Scores by comparison with a bank of fitted rows: KNN, CombOOD, NNGuide, and Relation (Neural Relation Graph)."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import Together, setting
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.detectors.mahalanobis import whiten
from unknown_detection.evaluation.detectors.nearest import (
    computing_on,
    kth_distances,
    make_bank,
    top_means,
    torch_device,
)
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features

# Bank rows per chunk. Each chunk is converted to float64 again for every chunk of scored rows, so the latter should be
# larger.
_BANK_ROWS = 1024

_AT_ONCE = 4096
"""Rows that are compared at once: the more, the less often the bank is read."""

_TO_ALL = "1 to the number of rows fitted on"

_ROWS = 10_000
"""Rows that CombOOD's transform and covariance are fitted on at most, drawn by id (ours)."""

_LEAST = 1e-20
"""What a squared distance is at least: its logarithm is finite (ours)."""


class _Nearest(Together):
    """A detector that searches the `k` nearest fitted rows; several search once, for the greatest k."""

    cost = "search"
    at_once = _AT_ONCE
    k: int
    _of_nearest: ClassVar[Callable[..., Doubles]]
    """Maps rows of length 1, the bank and several ks to values, shape (m, number of ks)."""

    def _learn(self, features: Features) -> None:
        if not (1 <= self.k <= len(features) and self.k == int(self.k)):
            raise EvaluationError(
                f"k of {self.name} must be a whole number from 1 to the {len(features):,} rows it is fitted on, found "
                f"{self.k:,}. Give fewer, or fit on more rows."
            )
        self.bank = make_bank(features.penultimate)

    def _rows_together(self, detectors: Sequence[_Nearest], z: Doubles) -> Doubles:
        return self._of_nearest(arrays.unit(z), self.bank, [int(detector.k) for detector in detectors])


class KNN(_Nearest):
    """Distance to the k-th nearest fitted row (KNN).

    Formula: ||z / ||z|| - b_(k)||_2 with b_(k) the k-th nearest of the fitted rows' features, normalized to length 1;
    in [0, 2].
    Source: Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022, section 3; 50 is their k
    for CIFAR-10, 200 for CIFAR-100, 1000 for all of ImageNet.
    """

    name, title, source = "knn", "KNN", "Sun et al. 2022, section 3"
    compared = "pytorch-ood 0.4"

    k: int = setting(50, 1, 5, 10, 20, 100, 200, 500, 1000, allowed=_TO_ALL)

    _of_nearest = staticmethod(kth_distances)


class CombOOD(KNN):
    """Squared Mahalanobis distance, plus the logarithm of the squared distance to the k-th nearest row (CombOOD).

    Formula: x^T (S + I)^-1 x + sqrt(D) log d_k^2 with d_k as in `KNN`, x the features, each standardized and made
    normal by Yeo and Johnson's transform of the fitted rows, and S their covariance.
    Source: Rajasekaran et al., COMBOOD: A Semiparametric Approach for Detecting Out-of-distribution Data for Image
    Classification, SDM 2024, and the authors' code ("square log probability"; k = 50). Both distances are of the
    penultimate features, one of the code's strategies; its entry on OpenOOD's board, which is disputed, takes the
    first of the least and greatest activations of every layer. That is to the mean of all rows, not of classes.
    """

    name, title, source = "combood", "CombOOD", "Rajasekaran et al. 2024 (penultimate features)"
    requires = ("sklearn",)

    k: int = setting(50, 10, 200, allowed=_TO_ALL)

    def _learn(self, features: Features) -> None:
        from sklearn.pipeline import make_pipeline  # optional, and slow to import
        from sklearn.preprocessing import PowerTransformer, StandardScaler

        super()._learn(features)
        fitted = features.penultimate[arrays.draw_rows(features.ids, _ROWS, 0)].astype(np.float64)
        self.normal = make_pipeline(StandardScaler(), PowerTransformer())
        covariance = np.cov(self.normal.fit_transform(fitted), rowvar=False)
        self.factor = np.asarray(np.linalg.cholesky(covariance + np.eye(len(covariance))), np.float64)

    def _rows_together(self, detectors: Sequence[_Nearest], z: Doubles) -> Doubles:
        """Search once, for the greatest k."""
        nearest = np.maximum(super()._rows_together(detectors, z) ** 2, _LEAST)
        white = whiten(self.normal.transform(z), self.factor)
        return arrays.dots(white, white)[:, None] + np.sqrt(z.shape[1]) * np.log(nearest)


class NNGuide(_Nearest):
    """Energy times the mean similarity to the nearest fitted rows, which count by their energy (NNGuide).

    Formula: -E(l) 1/k sum_{j in N_k} E(l_j) cos(z, z_j), with E(l) = log sum_c exp l_c and N_k the k fitted rows with
    the greatest E(l_j) cos(z, z_j).
    Source: Park, Jung and Teoh, Nearest Neighbor Guidance for Out-of-Distribution Detection, ICCV 2023, section 3; k =
    10 is the default of their code. OpenOOD compares with a hundredth of the training rows; here all fitted rows
    count.
    """

    name, title, source = "nnguide", "NNGuide", "Park et al. 2023, section 3"
    compared = "pytorch-ood 0.4"

    k: int = setting(10, 1, 50, 100, allowed=_TO_ALL)  # 100 is OpenOOD's

    _of_nearest = staticmethod(top_means)

    def _learn(self, features: Features) -> None:
        super()._learn(features)
        energies = [-energy(logits) for _, logits in arrays.pieces(features.logits)]
        self.bank = replace(self.bank, weights=np.concatenate(energies))

    def _rows_together(self, detectors: Sequence[_Nearest], z: Doubles, *logits: Doubles) -> Doubles:
        return energy(logits[0])[:, None] * super()._rows_together(detectors, z)


class Relation(Together):
    """Negative mean relation to the fitted rows.

    Formula: -1/N sum_j r_j^t over the relations r_j = max(0, cos(z, z_j)) p . p_j above `cutoff`, with p = softmax(l)
    and j over the N fitted rows; in [-1, 0]. The power t is above 0.
    Source: Kim et al., Neural Relation Graph: A Unified Framework for Identifying Label Noise and Outlier Data,
    NeurIPS 2023, section 3; t = 1 is theirs for OoD detection, and the cutoff of 0.03 that of their code, which gives
    the farthest rows equal scores. With many fitted rows, relations are computed in float32: scores are then right to
    about 1e-6 of themselves.
    """

    name, title, source = "relation", "Relation", "Kim et al. 2023, section 3"
    cost = "search"
    at_once = _AT_ONCE

    power: float = setting(1.0, 2.0, 4.0, 8.0, allowed=ranges.POSITIVE)
    cutoff: float = setting(0.03, 0.0, allowed=ranges.SHARE)

    def _learn(self, features: Features) -> None:
        self.bank, self.logits = make_bank(features.penultimate), features.logits

    def _rows_together(self, detectors: Sequence[Relation], z: Doubles, logits: Doubles) -> Doubles:
        """Compute the relations to the bank once."""
        rows = arrays.unit(z), softmax(logits, axis=1)
        # By the size of the bank alone, so that a row's score does not depend on the number of rows.
        device = torch_device(_AT_ONCE * len(self.bank) * sum(values.shape[1] for values in rows))
        return -_relations(*rows, detectors, device) / len(self.bank)


def _relations(z: Any, probabilities: Any, detectors: Sequence[Relation], device: str | None) -> Doubles:
    """Return sums of relations over the bank, shape (m, number of detectors).

    NumPy adds them in float64, and torch on its `device` in float32: no single one decides a score.
    """
    bank, library = detectors[0].bank, importlib.import_module("numpy" if device is None else "torch")
    move: Any = partial(np.asarray, dtype=np.float64)
    if device is not None:
        move = partial(library.tensor, dtype=library.float32, device=device)
    total = np.zeros((len(z), len(detectors)))
    with contextlib.nullcontext() if device is None else computing_on(device):
        z, probabilities = move(z), move(probabilities)
        for rows in arrays.chunks(len(bank), at_once=_BANK_ROWS * (1 if device is None else 8)):
            logits = move(detectors[0].logits[rows])
            odds = library.exp(logits - library.amax(logits, axis=1, keepdims=True))
            vectors, factors = (bank.directions(rows), 1.0) if device is None else map(move, bank.factored(rows))
            relations = z @ vectors.T * factors
            library.clip(relations, 0, None, out=relations)
            relations *= probabilities @ (odds / odds.sum(axis=1, keepdims=True)).T
            for column, detector in enumerate(detectors):
                counted = relations
                if detector.cutoff > 0:
                    counted = library.where(relations > detector.cutoff, relations, 0.0)
                sums = (counted if detector.power == 1 else counted**detector.power).sum(axis=1)
                total[:, column] += np.asarray(sums if device is None else sums.cpu())
    return total
