"""Energy guided by the nearest fitted rows: NNGuide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unknown_detection.evaluation.detectors import neighbors
from unknown_detection.evaluation.detectors.base import Method
from unknown_detection.evaluation.detectors.fitting import require_labels
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.detectors.nearest import Bank, search, torch_device
from unknown_detection.evaluation.detectors.neighbors import (
    bank_inputs,
    require_neighbors,
    search_doubles,
    unit,
    unit_bank,
)
from unknown_detection.evaluation.detectors.rows import FEATURES, LOGITS, Doubles, Plan, Together, chunks, dots, pieces
from unknown_detection.evaluation.models.features import Features, Head


@dataclass(frozen=True)
class GuidedEnergy(Together):
    """A fitted NNGuide detector.

    Attributes:
        bank: directions of the fitted rows, each times its energy.
        neighbors: number k.
    """

    bank: Bank
    neighbors: int

    def plan(self, detectors: Sequence[GuidedEnergy], features: Features) -> Plan:
        """Search once, for the greatest k."""
        bank, counts = self.bank, [detector.neighbors for detector in detectors]
        device = torch_device(len(features) * bank.features.penultimate.size)

        def score(z: Doubles, logits: Doubles) -> Doubles:
            return energy(logits)[:, None] * _guidance(unit(z), bank, counts, device)

        doubles = search_doubles(bank, max(counts), device) + 4 * features.logits.shape[1]
        return score, bank_inputs(bank, features, FEATURES, LOGITS), doubles


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
        products[row[pairs], place[pairs]] = dots(z[row[pairs]], vectors)
    descending = -np.sort(-products, axis=1)
    guidance = np.stack([descending[:, :count].mean(axis=1) for count in counts], axis=1)
    if device is not None and not certain.all():  # many rows lie in nearly the same direction
        guidance[~certain] = _guidance(z[~certain], bank, counts, None)
    return guidance


def make_nnguide(features: Features, head: Head | None, neighbors: int = 10) -> GuidedEnergy:
    """Energy times the mean similarity to the nearest fitted rows, which count by their energy (NNGuide).

    Formula: -E(l) 1/k sum_{j in N_k} E(l_j) cos(z, z_j), with E(l) = log sum_c exp l_c and N_k the k fitted rows with
    the greatest E(l_j) cos(z, z_j). `neighbors` is k.
    Source: Park, Jung and Teoh, Nearest Neighbor Guidance for Out-of-Distribution Detection, ICCV 2023, section 3; k =
    10 is the default of their code. OpenOOD compares with a hundredth of the training rows; here all fitted rows
    count.
    """
    require_labels(features, "nnguide")
    require_neighbors(int(neighbors), len(features), "nnguide")
    bank = unit_bank(features)
    energies = np.empty(len(features))
    for rows, logits in pieces(LOGITS, features.logits, features.ids):
        energies[rows] = -energy(logits)
    # A vector's length is its energy, but 0 where the features are 0.
    bank = replace(bank, factors=bank.factors * energies, longest=float(np.abs(energies).max()))
    return GuidedEnergy(bank, int(neighbors))


NNGUIDE = Method(
    "nnguide",
    "NNGuide",
    "Park et al. 2023, section 3",
    make_nnguide,
    fit="train",
    grid={"neighbors": (10, 1, 50, 100)},  # 100 is OpenOOD's
    score_together=GuidedEnergy.score_together,
)
