"""Scores by comparison with a bank of fitted rows: nearest neighbours (KNN) and Relation (Neural Relation Graph)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from evaluation.detectors.base import Method, Scores
from evaluation.detectors.fitting import require_labels
from evaluation.detectors.rows import Doubles, as_float64, require_width, score_in_chunks
from evaluation.errors import EvaluationError
from evaluation.models.features import Features, Head

# Bank rows per chunk. Each chunk is converted to float64 again for every chunk of scored rows, so the latter should be
# larger.
_BANK_ROWS = 1024


def unit(values: Doubles) -> Doubles:
    """Divide rows by their Euclidean norm; rows of zeros stay.

    Args:
        values: shape (n, D).
    """
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(norms > 0, norms, 1.0)


def _bank_chunks(bank: Features) -> Iterator[slice]:
    for start in range(0, len(bank), _BANK_ROWS):
        yield slice(start, min(start + _BANK_ROWS, len(bank)))


def _bank_features(bank: Features, rows: slice) -> Doubles:
    return unit(as_float64("penultimate features", bank.penultimate, rows, bank.ids))


@dataclass(frozen=True)
class NearestNeighbors:
    """A fitted KNN detector.

    Attributes:
        bank: the fitted rows.
        neighbors: number k.
    """

    bank: Features
    neighbors: int

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        return self.score_together([self], features)[0]

    @staticmethod
    def score_together(detectors: Sequence[NearestNeighbors], features: Features) -> list[Scores]:
        """Score with several detectors that differ in k only, in the time of one."""
        bank, counts = detectors[0].bank, [detector.neighbors for detector in detectors]
        width = bank.penultimate.shape[1]
        require_width("penultimate features", features.penultimate, width)
        scores = score_in_chunks(
            lambda z: _distances(z, bank, counts),
            {"penultimate features": features.penultimate},
            features.ids,
            doubles_per_row=3 * width + 2 * (min(_BANK_ROWS, len(bank)) + 2 * max(counts)),
            columns=(len(counts),),
        )
        return list(scores.T)


def _distances(z: Doubles, bank: Features, counts: Sequence[int]) -> Doubles:
    """Return the distances of rows to their k-th nearest row of the bank, shape (m, number of ks)."""
    z = unit(z)
    similarity, index = np.empty((len(z), 0)), np.empty((len(z), 0), dtype=np.int64)
    for rows in _bank_chunks(bank):
        products = z @ _bank_features(bank, rows).T
        numbers = np.broadcast_to(np.arange(rows.start, rows.stop), products.shape)
        similarity, index = _greatest(np.hstack((similarity, products)), np.hstack((index, numbers)), max(counts))
    nearest_first = np.take_along_axis(index, np.argsort(-similarity, axis=1), axis=1)
    distances = np.empty((len(z), len(counts)))
    for column, count in enumerate(counts):
        # Computed again as a difference: from the product, the distance of a row to itself could be up to 1e-8.
        neighbor = unit(bank.penultimate[nearest_first[:, count - 1]].astype(np.float64))
        distances[:, column] = np.linalg.norm(z - neighbor, axis=1)
    return distances


def _greatest(values: Doubles, index: npt.NDArray[np.int64], count: int) -> tuple[Doubles, npt.NDArray[np.int64]]:
    """Return the `count` greatest values of each row, unordered, with their column numbers."""
    if values.shape[1] <= count:
        return values, index
    kept = np.argpartition(values, -count, axis=1)[:, -count:]
    return np.take_along_axis(values, kept, axis=1), np.take_along_axis(index, kept, axis=1)


def _check_bank(bank: Features) -> None:
    for rows in _bank_chunks(bank):
        as_float64("penultimate features", bank.penultimate, rows, bank.ids)


def make_knn(features: Features, head: Head | None, neighbors: int = 50) -> NearestNeighbors:
    """Distance to the k-th nearest fitted row (KNN).

    Formula: ||z / ||z|| - b_(k)||_2 with b_(k) the k-th nearest of the fitted rows' features, normalized to length 1;
    in [0, 2].
    Source: Sun et al., Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022, section 3; 50 is their k
    for CIFAR-10, 200 for CIFAR-100, 1000 for all of ImageNet.

    Args:
        features: in-distribution rows; kept, not copied.
        head: not read.
        neighbors: k.

    Raises:
        EvaluationError: there are fewer than k rows, or they are no in-distribution rows.
    """
    require_labels(features, "knn")
    neighbors = int(neighbors)
    if not 1 <= neighbors <= len(features):
        raise EvaluationError(
            f"neighbors of knn must be from 1 to the {len(features):,} rows it is fitted on, found {neighbors:,}. "
            "Give fewer, or fit on more rows."
        )
    _check_bank(features)
    return NearestNeighbors(features, neighbors)


@dataclass(frozen=True)
class Relation:
    """A fitted Relation detector.

    Attributes:
        bank: the fitted rows.
        power: exponent t.
        cutoff: relations up to this value count as 0.
    """

    bank: Features
    power: float
    cutoff: float

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        return self.score_together([self], features)[0]

    @staticmethod
    def score_together(detectors: Sequence[Relation], features: Features) -> list[Scores]:
        """Score with several detectors of one bank, in little more than the time of one."""
        bank = detectors[0].bank
        width, classes = bank.penultimate.shape[1], bank.logits.shape[1]
        require_width("penultimate features", features.penultimate, width)
        require_width("logits", features.logits, classes)
        scores = score_in_chunks(
            lambda z, logits: _relations(z, logits, detectors),
            {"penultimate features": features.penultimate, "logits": features.logits},
            features.ids,
            doubles_per_row=2 * width + 3 * classes + 4 * min(_BANK_ROWS, len(bank)) + len(detectors),
            columns=(len(detectors),),
        )
        return list(scores.T)


def _relations(z: Doubles, logits: Doubles, detectors: Sequence[Relation]) -> Doubles:
    """Return negative mean relations of rows to the bank, shape (m, number of detectors)."""
    bank = detectors[0].bank
    z, probabilities = unit(z), softmax(logits, axis=1)
    total = np.zeros((len(z), len(detectors)))
    for rows in _bank_chunks(bank):
        bank_probabilities = softmax(as_float64("logits", bank.logits, rows, bank.ids), axis=1)
        relations = np.maximum(z @ _bank_features(bank, rows).T, 0.0)
        relations *= probabilities @ bank_probabilities.T
        for column, detector in enumerate(detectors):
            counted = np.where(relations <= detector.cutoff, 0.0, relations) if detector.cutoff > 0 else relations
            total[:, column] += (counted if detector.power == 1 else counted**detector.power).sum(axis=1)
    return -total / len(bank)


def make_relation(features: Features, head: Head | None, power: float = 1.0, cutoff: float = 0.03) -> Relation:
    """Negative mean relation to the fitted rows.

    Formula: -1/N sum_j r_j^t over the relations r_j = max(0, cos(z, z_j)) p . p_j above `cutoff`, with p = softmax(l)
    and j over the N fitted rows; in [-1, 0].
    Source: Kim et al., Neural Relation Graph: A Unified Framework for Identifying Label Noise and Outlier Data,
    NeurIPS 2023, section 3; t = 1 is theirs for OoD detection, and the cutoff of 0.03 that of their code.

    Args:
        features: in-distribution rows; kept, not copied.
        head: not read.
        power: t > 0.
        cutoff: at least 0.

    Raises:
        EvaluationError: a parameter is out of range, or a row is not in-distribution.
    """
    require_labels(features, "relation")
    if not power > 0 or not cutoff >= 0:
        raise EvaluationError(
            f"relation needs power above 0 and cutoff of at least 0, found {power} and {cutoff}; give others."
        )
    _check_bank(features)
    return Relation(features, power, cutoff)


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
