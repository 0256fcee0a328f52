"""Scores by comparison with a bank of fitted rows: KNN, NNGuide, and Relation (Neural Relation Graph)."""

from __future__ import annotations

import abc
import contextlib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from unknown_detection.evaluation.detectors.base import (
    FEATURES,
    LOGITS,
    POSITIVE,
    Doubles,
    Range,
    Together,
    chunks,
    dots,
    pieces,
)
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.detectors.nearest import (
    Bank,
    TopProducts,
    computing_on,
    make_bank,
    search_bank,
    torch_device,
)
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Head

# Bank rows per chunk. Each chunk is converted to float64 again for every chunk of scored rows, so the latter should be
# larger.
_BANK_ROWS = 1024

_AT_ONCE = 4096
"""Rows that are compared at once: the more, the less often the bank is read."""

_PAIRS = 64
"""Pairs of rows that are compared in float64 at once: they stay in a core's cache."""


def unit(values: Doubles) -> Doubles:
    """Divide rows, shape (n, D), by their Euclidean norm; rows of zeros stay."""
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(norms > 0, norms, 1.0)


class _Nearest(Together):
    """A detector that searches the `k` nearest fitted rows; several search once, for the greatest k."""

    cost = "search"
    fits_on = "train"
    inputs: ClassVar[tuple[str, ...]] = (FEATURES,)
    at_once = _AT_ONCE
    ranges: ClassVar = {"k": "1 to the number of rows fitted on"}
    k: int
    bank: Bank

    def _learn(self, features: Features, head: Head | None) -> None:
        if not (1 <= self.k <= len(features) and self.k == int(self.k)):
            raise EvaluationError(
                f"k of {self.name} must be a whole number from 1 to the {len(features):,} rows it is fitted on, found "
                f"{self.k:,}. Give fewer, or fit on more rows."
            )
        self.bank = make_bank(features.penultimate)

    def _rows_together(self, detectors: Sequence[_Nearest], *inputs: Doubles) -> Doubles:
        z, counts = unit(inputs[0]), [int(detector.k) for detector in detectors]
        return search_bank(z, self.bank, max(counts), lambda rows, top: self._decide(z[rows], counts, top))

    @abc.abstractmethod
    def _decide(self, z: Doubles, counts: Sequence[int], top: TopProducts) -> Doubles:
        """Compute the scores of rows from their top products, shape (m, number of ks)."""


@dataclass
class KNN(_Nearest):
    """Distance to the k-th nearest fitted row (KNN).

    Formula: ||z / ||z|| - b_(k)||_2 with b_(k) the k-th nearest of the fitted rows' features, normalized to length 1;
    in [0, 2].
    Source: Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022, section 3; 50 is their k
    for CIFAR-10, 200 for CIFAR-100, 1000 for all of ImageNet.
    """

    name, title, source = "knn", "KNN", "Sun et al. 2022, section 3"
    compared = "pytorch-ood 0.4"
    search: ClassVar = {"k": (50, 1, 5, 10, 20, 100, 200, 500, 1000)}

    k: int = 50

    def _decide(self, z: Doubles, counts: Sequence[int], top: TopProducts) -> Doubles:
        """Return the distances of rows to their k-th nearest row of the bank, shape (m, number of ks)."""
        distances = np.empty((len(z), len(counts)))
        for column, count in enumerate(counts):
            first, end = top.around(count)  # the candidates of each row
            sizes = end - first
            starts = np.cumsum(sizes) - sizes
            row = np.repeat(np.arange(len(z)), sizes)
            candidates = top.index[row, np.arange(len(row)) - starts[row] + first[row]]
            of_pairs = np.empty(len(row))
            for start in range(0, len(row), _PAIRS):
                pairs = slice(start, start + _PAIRS)
                # As a difference: from the product, the distance of a row to itself could be up to 1e-8.
                of_pairs[pairs] = np.linalg.norm(z[row[pairs]] - self.bank.directions(candidates[pairs]), axis=1)
            distances[:, column] = of_pairs[np.lexsort((of_pairs, row))][starts + count - 1 - first]
        return distances


@dataclass
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
    inputs = (FEATURES, LOGITS)
    search: ClassVar = {"k": (10, 1, 50, 100)}  # 100 is OpenOOD's

    k: int = 10

    def _decide(self, z: Doubles, counts: Sequence[int], top: TopProducts) -> Doubles:
        return top_means(z, self.bank, counts, top)

    def _learn(self, features: Features, head: Head | None) -> None:
        super()._learn(features, head)
        energies = [-energy(logits) for _, logits in pieces(features.logits)]
        self.bank = replace(self.bank, weights=np.concatenate(energies))

    def _rows_together(self, detectors: Sequence[_Nearest], *inputs: Doubles) -> Doubles:
        return energy(inputs[1])[:, None] * super()._rows_together(detectors, *inputs)


def top_means(z: Doubles, bank: Bank, counts: Sequence[int], top: TopProducts) -> Doubles:
    """Return the mean of the k greatest products of rows with the bank, shape (m, number of ks)."""
    most = max(counts)
    _, end = top.around(most)
    row, place = np.nonzero(np.arange(end.max(initial=most)) < end[:, None])
    candidates = top.index[row, place]
    products = np.full((len(z), end.max(initial=most)), -np.inf)
    for start in range(0, len(row), _PAIRS):
        pairs = slice(start, start + _PAIRS)
        products[row[pairs], place[pairs]] = dots(z[row[pairs]], bank.directions(candidates[pairs]))
    products[row, place] *= bank.weights[candidates]
    descending = -np.sort(-products, axis=1)
    return np.stack([descending[:, :count].mean(axis=1) for count in counts], axis=1)


@dataclass
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
    fits_on = "train"
    inputs = (FEATURES, LOGITS)
    at_once = _AT_ONCE
    search: ClassVar = {"power": (1.0, 2.0, 4.0, 8.0), "cutoff": (0.03, 0.0)}
    ranges: ClassVar = {"power": POSITIVE, "cutoff": Range("0 to 1", lambda value: 0 <= value <= 1)}

    power: float = 1.0
    cutoff: float = 0.03

    def _learn(self, features: Features, head: Head | None) -> None:
        self.bank, self.logits = make_bank(features.penultimate), features.logits

    def _rows_together(self, detectors: Sequence[Relation], *inputs: Doubles) -> Doubles:
        """Compute the relations to the bank once."""
        rows = unit(inputs[0]), softmax(inputs[1], axis=1)
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
        for rows in chunks(len(bank), at_once=_BANK_ROWS * (1 if device is None else 8)):
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
