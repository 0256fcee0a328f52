"""Energy guided by the nearest fitted rows: NNGuide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.detectors import neighbors
from evaluation.detectors.base import Method, Scores
from evaluation.detectors.fitting import require_labels
from evaluation.detectors.logits import energy
from evaluation.detectors.nearest import Bank, search, torch_device
from evaluation.detectors.neighbors import search_doubles, unit, unit_bank
from evaluation.detectors.rows import Doubles, as_float64, chunks, require_width, score_in_chunks
from evaluation.errors import EvaluationError
from evaluation.models.features import Features, Head


@dataclass(frozen=True)
class GuidedEnergy:
    """A fitted NNGuide detector.

    Attributes:
        bank: directions of the fitted rows, each times its energy.
        neighbors: number k.
    """

    bank: Bank
    neighbors: int

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        return self.score_together([self], features)[0]

    @staticmethod
    def score_together(detectors: Sequence[GuidedEnergy], features: Features) -> list[Scores]:
        """Score with several detectors that differ in k only, in the time of one."""
        bank, counts = detectors[0].bank, [detector.neighbors for detector in detectors]
        width, classes = bank.features.penultimate.shape[1], bank.features.logits.shape[1]
        require_width("penultimate features", features.penultimate, width)
        require_width("logits", features.logits, classes)
        device = torch_device(len(features) * len(bank) * width)
        scores = score_in_chunks(
            lambda z, logits: energy(logits)[:, None] * _guidance(unit(z), bank, counts, device),
            {"penultimate features": features.penultimate, "logits": features.logits},
            features.ids,
            doubles_per_row=search_doubles(width, len(bank), max(counts), device) + 4 * classes,
            columns=(len(counts),),
        )
        return list(scores.T)


def _guidance(z: Doubles, bank: Bank, counts: Sequence[int], device: str | None) -> Doubles:
    """Return the mean of the k greatest products of rows with the bank, shape (m, number of ks)."""
    most = max(counts)
    found = search(z, bank, most, bank_rows=neighbors._BANK_ROWS, device=device)
    _, end, certain = found.around(most)
    places = np.arange(end.max(initial=most))
    products = np.full((len(z), len(places)), -np.inf)
    row, place = np.nonzero(places < end[:, None])
    index = found.index[row, place]
    for pairs in chunks(len(row), 3 * z.shape[1]):
        vectors = bank.at(index[pairs]) * bank.factors[index[pairs], None]
        products[row[pairs], place[pairs]] = np.einsum("nd,nd->n", z[row[pairs]], vectors)
    descending = -np.sort(-products, axis=1)
    guidance = np.stack([descending[:, :count].mean(axis=1) for count in counts], axis=1)
    if device is not None and not certain.all():  # many rows lie in nearly the same direction
        guidance[~certain] = _guidance(z[~certain], bank, counts, None)
    return guidance


def make_nnguide(features: Features, head: Head | None, neighbors: int = 10) -> GuidedEnergy:
    """Energy times the mean similarity to the nearest fitted rows, which count by their energy (NNGuide).

    Formula: -E(l) 1/k sum_{j in N_k} E(l_j) cos(z, z_j), with E(l) = log sum_c exp l_c and N_k the k fitted rows with
    the greatest E(l_j) cos(z, z_j).
    Source: Park, Jung and Teoh, Nearest Neighbor Guidance for Out-of-Distribution Detection, ICCV 2023, section 3; k =
    10 is the default of their code. OpenOOD compares with a hundredth of the training rows; here all fitted rows
    count.

    Args:
        features: in-distribution rows; kept, not copied.
        head: not read.
        neighbors: k.

    Raises:
        EvaluationError: there are fewer than k rows, or they are no in-distribution rows.
    """
    require_labels(features, "nnguide")
    count = int(neighbors)
    if not 1 <= count <= len(features):
        raise EvaluationError(
            f"neighbors of nnguide must be from 1 to the {len(features):,} rows it is fitted on, found {count:,}. "
            "Give fewer, or fit on more rows."
        )
    bank = unit_bank(features)
    energies = np.empty(len(features))
    for rows in chunks(len(features), 4 * features.logits.shape[1]):
        energies[rows] = -energy(as_float64("logits", features.logits, rows, features.ids))
    # A vector's length is its energy, but 0 where the features are 0.
    return GuidedEnergy(replace(bank, factors=bank.factors * energies, longest=float(np.abs(energies).max())), count)


# 100 is OpenOOD's.
NNGUIDE = Method(
    "nnguide",
    "NNGuide",
    "Park et al. 2023, section 3",
    make_nnguide,
    fit="train",
    grid={"neighbors": (10, 1, 50, 100)},
    score_together=GuidedEnergy.score_together,
)
