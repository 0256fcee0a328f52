"""Scores by comparison with a bank of fitted rows: nearest neighbours (KNN) and Relation (Neural Relation Graph)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from unknown_detection.evaluation.detectors.base import Method, Scores
from unknown_detection.evaluation.detectors.fitting import require_labels, require_range
from unknown_detection.evaluation.detectors.nearest import Bank, Integers, halving, search, torch_device
from unknown_detection.evaluation.detectors.rows import (
    FEATURES,
    LOGITS,
    Doubles,
    Plan,
    Together,
    as_float64,
    chunks,
    dots,
    pieces,
    require_width,
)
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Features, Floats, Head

# Bank rows per chunk. Each chunk is converted to float64 again for every chunk of scored rows, so the latter should be
# larger.
_BANK_ROWS = 1024

_RELATION_ROWS = 4096
"""Number of rows for which Relation decides whether torch is worth it, whatever their number is."""


def unit(values: Doubles) -> Doubles:
    """Divide rows, shape (n, D), by their Euclidean norm; rows of zeros stay."""
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(norms > 0, norms, 1.0)


def unit_bank(features: Features) -> Bank:
    """Return the directions of the rows' features, and zeros for rows of zeros.

    Raises:
        EvaluationError: a value is NaN or infinite.
    """
    lengths = np.empty(len(features))
    for start in range(0, len(features), _BANK_ROWS):  # few rows at once, which stay in the cache
        rows = slice(start, start + _BANK_ROWS)
        lengths[rows] = np.linalg.norm(as_float64(FEATURES, features.penultimate, rows, features.ids), axis=1)
    return Bank(features, np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0))


def require_neighbors(count: int, rows: int, detector: str) -> None:
    """Check a number of neighbours.

    Raises:
        EvaluationError: it is not from 1 to the number of fitted rows.
    """
    if not 1 <= count <= rows:
        raise EvaluationError(
            f"neighbors of {detector} must be from 1 to the {rows:,} rows it is fitted on, found {count:,}. Give "
            "fewer, or fit on more rows."
        )


def bank_inputs(bank: Bank, features: Features, *names: str) -> dict[str, Floats]:
    """Return the named inputs of rows, checked to be as wide as the bank's.

    Raises:
        EvaluationError: one is not.
    """
    of = {FEATURES: (features.penultimate, bank.features.penultimate), LOGITS: (features.logits, bank.features.logits)}
    for name in names:
        require_width(name, of[name][0], of[name][1].shape[1])
    return {name: of[name][0] for name in names}


@dataclass(frozen=True)
class NearestNeighbors(Together):
    """A fitted KNN detector.

    Attributes:
        bank: directions of the fitted rows.
        neighbors: number k.
    """

    bank: Bank
    neighbors: int

    def plan(self, detectors: Sequence[NearestNeighbors], features: Features) -> Plan:
        """Search once, for the greatest k."""
        bank, counts = self.bank, [detector.neighbors for detector in detectors]
        device = torch_device(len(features) * bank.features.penultimate.size)
        score = partial(_distances, bank=bank, counts=counts, device=device)
        return score, bank_inputs(bank, features, FEATURES), search_doubles(bank, max(counts), device)


def search_doubles(bank: Bank, count: int, device: str | None) -> int:
    """Return the float64 numbers in memory per row of a search, for `score_in_chunks`."""
    width: int = bank.features.penultimate.shape[1]
    if device is None:
        return 3 * width + 2 * (min(_BANK_ROWS, len(bank)) + 2 * count)
    # The more rows at once, the less often the bank is read; 4,096 are enough, and their products take 128 MiB.
    return max(width, 2 * count, 2048)


def _distances(z: Doubles, bank: Bank, counts: Sequence[int], device: str | None) -> Doubles:
    """Return the distances of rows to their k-th nearest row of the bank, shape (m, number of ks)."""
    z = unit(z)
    found = search(z, bank, max(counts), bank_rows=_BANK_ROWS, device=device)
    distances = np.empty((len(z), len(counts)))
    certain = np.ones(len(z), dtype=np.bool_)
    for column, count in enumerate(counts):
        first, end, sure = found.around(count)
        distances[:, column] = _kth_distances(z, bank, found.index, first, end, count)
        certain &= sure
    if device is not None and not certain.all():  # many rows lie in nearly the same direction
        distances[~certain] = _distances(z[~certain], bank, counts, None)
    return distances


def _kth_distances(z: Doubles, bank: Bank, index: Integers, first: Integers, end: Integers, count: int) -> Scores:
    """Return the `count`-th smallest distance of each row, of which `first` are smaller than those up to `end`."""
    sizes = end - first
    starts = np.cumsum(sizes) - sizes
    row = np.repeat(np.arange(len(z)), sizes)
    place = np.arange(sizes.sum()) - starts[row] + first[row]
    distances = np.empty(len(row))
    for pairs in chunks(len(row), 3 * z.shape[1]):
        # As a difference: from the product, the distance of a row to itself could be up to 1e-8.
        neighbors = unit(bank.at(index[row[pairs], place[pairs]]))
        distances[pairs] = np.linalg.norm(z[row[pairs]] - neighbors, axis=1)
    ordered = distances[np.lexsort((distances, row))]
    scores: Scores = ordered[starts + count - 1 - first]
    return scores


def make_knn(features: Features, head: Head | None, neighbors: int = 50) -> NearestNeighbors:
    """Distance to the k-th nearest fitted row (KNN).

    Formula: ||z / ||z|| - b_(k)||_2 with b_(k) the k-th nearest of the fitted rows' features, normalized to length 1;
    in [0, 2]. `neighbors` is k.
    Source: Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022, section 3; 50 is their k
    for CIFAR-10, 200 for CIFAR-100, 1000 for all of ImageNet.
    """
    require_labels(features, "knn")
    require_neighbors(int(neighbors), len(features), "knn")
    return NearestNeighbors(unit_bank(features), int(neighbors))


@dataclass(frozen=True)
class Relation(Together):
    """A fitted Relation detector.

    Attributes:
        bank: directions of the fitted rows.
        power: exponent t.
        cutoff: relations up to this value count as 0.
        sums: sum of z_j p_j^T over the fitted rows, shape (D, C), if their scores follow from it; else None.
    """

    bank: Bank
    power: float
    cutoff: float
    sums: Doubles | None = None

    def plan(self, detectors: Sequence[Relation], features: Features) -> Plan:
        """Compute the relations to the bank once."""
        bank = self.bank
        width, classes = bank.features.penultimate.shape[1], bank.features.logits.shape[1]
        # By the size of the bank alone, so that a row's score does not depend on the number of rows.
        device = torch_device(_RELATION_ROWS * len(bank) * (width + classes))
        doubles = 2 * width + 3 * classes + 4 * min(_BANK_ROWS, len(bank)) if device is None else max(width, 2048)

        def score(z: Doubles, logits: Doubles) -> Doubles:
            return _scores(unit(z), softmax(logits, axis=1), detectors, device)

        return score, bank_inputs(bank, features, FEATURES, LOGITS), doubles + len(detectors)


def _scores(z: Doubles, probabilities: Doubles, detectors: Sequence[Relation], device: str | None) -> Doubles:
    """Return negative mean relations of rows to the bank, shape (m, number of detectors)."""
    total = np.empty((len(z), len(detectors)))
    pairwise = []
    for column, detector in enumerate(detectors):
        if detector.sums is not None and (z >= 0).all():
            # No cosine is negative, so the sum over the bank is z^T (sum_j z_j p_j^T) p.
            total[:, column] = dots(z @ detector.sums, probabilities)
        else:
            pairwise.append(column)
    if pairwise:
        others = [detectors[column] for column in pairwise]
        if device is None:
            total[:, pairwise] = _relations(z, probabilities, others)
        else:
            parts = halving(lambda *pair: _relations_on_device(pair[0], pair[1], others), device, z, probabilities)
            total[:, pairwise] = np.concatenate(parts)
    return -total / len(detectors[0].bank)


def _relations(z: Doubles, probabilities: Doubles, detectors: Sequence[Relation]) -> Doubles:
    """Return sums of relations over the bank, shape (m, number of detectors)."""
    bank = detectors[0].bank
    total = np.zeros((len(z), len(detectors)))
    for rows in bank.pieces(_BANK_ROWS):
        relations = np.maximum(z @ bank.vectors(rows).T, 0.0)
        relations *= probabilities @ _probabilities(bank.features, rows).T
        for column, detector in enumerate(detectors):
            counted = np.where(relations <= detector.cutoff, 0.0, relations) if detector.cutoff > 0 else relations
            total[:, column] += (counted if detector.power == 1 else counted**detector.power).sum(axis=1)
    return total


def _relations_on_device(z: Any, probabilities: Any, detectors: Sequence[Relation]) -> Doubles:
    """As `_relations`, in float32 but for the sums: no pair's relation decides a score, so none is computed again."""
    import torch

    bank = detectors[0].bank
    total = np.zeros((len(z), len(detectors)))
    for rows in bank.pieces(8 * _BANK_ROWS):
        logits = torch.tensor(bank.features.logits[rows], dtype=torch.float32, device=z.device)
        relations = (z @ torch.from_numpy(bank.vectors32(rows)).to(z.device).T).clamp_(min=0)
        relations *= probabilities @ logits.softmax(dim=1).T
        for column, detector in enumerate(detectors):
            counted = torch.where(relations > detector.cutoff, relations, 0.0) if detector.cutoff > 0 else relations
            counted = counted if detector.power == 1 else counted**detector.power
            total[:, column] += counted.sum(dim=1).cpu().numpy()
    return total


def _probabilities(features: Features, rows: slice) -> Doubles:
    probabilities: Doubles = softmax(as_float64(LOGITS, features.logits, rows, features.ids), axis=1)
    return probabilities


def _sum_of_products(bank: Bank) -> Doubles | None:
    """Return the sum of z_j p_j^T over the bank, shape (D, C); None if a feature is negative."""
    features = bank.features
    sums = np.zeros((features.penultimate.shape[1], features.logits.shape[1]))
    for rows in bank.pieces(_BANK_ROWS):
        vectors = bank.vectors(rows)
        if (vectors < 0).any():
            return None
        sums += vectors.T @ _probabilities(features, rows)
    return sums


def make_relation(features: Features, head: Head | None, power: float = 1.0, cutoff: float = 0.03) -> Relation:
    """Negative mean relation to the fitted rows.

    Formula: -1/N sum_j r_j^t over the relations r_j = max(0, cos(z, z_j)) p . p_j above `cutoff`, with p = softmax(l)
    and j over the N fitted rows; in [-1, 0]. The power t is above 0.
    Source: Kim et al., Neural Relation Graph: A Unified Framework for Identifying Label Noise and Outlier Data,
    NeurIPS 2023, section 3; t = 1 is theirs for OoD detection, and the cutoff of 0.03 that of their code, which gives
    the farthest rows equal scores. With many fitted rows, and a cutoff, negative features or t other than 1, relations
    are computed in float32: scores are then right to about 1e-6 of themselves.
    """
    require_labels(features, "relation")
    rule = "relation needs power above 0 and cutoff of at least 0"
    require_range(power > 0 and cutoff >= 0, rule, power, cutoff)
    for _ in pieces(LOGITS, features.logits, features.ids):
        pass  # refuses NaN
    bank = unit_bank(features)
    return Relation(bank, power, cutoff, _sum_of_products(bank) if power == 1 and cutoff == 0 else None)


KNN = Method(
    "knn",
    "KNN",
    "Sun et al. 2022, section 3",
    make_knn,
    fit="train",
    grid={"neighbors": (50, 1, 5, 10, 20, 100, 200, 500, 1000)},
    ranges={"neighbors": "1 to the number of rows fitted on"},
    score_together=NearestNeighbors.score_together,
)
RELATION = Method(
    "relation",
    "Relation",
    "Kim et al. 2023, section 3",
    make_relation,
    fit="train",
    grid={"power": (1.0, 2.0, 4.0, 8.0), "cutoff": (0.03, 0.0)},
    ranges={"power": "above 0", "cutoff": "0 to 1"},
    score_together=Relation.score_together,
)
