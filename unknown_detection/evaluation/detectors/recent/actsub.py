"""ActSub: energy in the subspace that decides the class, and nearness to fitted rows in the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import Together, setting
from unknown_detection.evaluation.detectors.logits import energy
from unknown_detection.evaluation.detectors.nearest import make_bank, top_means
from unknown_detection.evaluation.detectors.shaping import scale
from unknown_detection.evaluation.models.features import Doubles, Features

_NEAREST = 10
"""Nearest fitted rows whose similarity is averaged, in the authors' code."""


class ActSub(Together):
    """Energy of the decisive part of the features times the nearness of the rest to fitted rows (ActSub).

    Formula: E(W scale(P z) + b) s^lambda with E the energy, below 0 for confident rows, P the projection on the first
    k right singular vectors of W, and s = -log(1 - c), c the mean of the ten greatest cosines of (I - P) z with those
    of fitted rows; k is where the mean norms of P z and (I - P) z over the fitted rows are most alike. `scale` is
    SCALE's.
    Source: Zöngür, Hesse and Roth, Activation Subspaces for Out-of-Distribution Detection, ICCV 2025, equations 4 to
    10, with SCALE; pruned = 0.95 and lambda = 2 are theirs for ResNets, 0.975 and 1 those for ViTs, and the lists
    those they search. Beyond the last singular value directions are arbitrary, so that k is at most their number; s is
    at least 0 (both ours).

    Args:
        pruned: share of the activations that `scale` leaves out of its sum.
        weight: lambda.
        rows: maximum number of fitted rows to compare with, drawn by id (ours; the authors draw a tenth).
        seed: random seed of that draw.
    """

    name, title, source = "actsub", "ActSub", "Zöngür et al. 2025, equation 10"
    compared = "the authors' code (5b058e7)"
    cost = "search"
    reads_head = True
    at_once = 4096

    pruned: float = setting(0.95, 0.85, 0.9, 0.925, 0.975, allowed=ranges.BELOW_ONE)
    weight: float = setting(2.0, 0.5, 1.0, 1.5, allowed=ranges.at_least(0))
    rows: int = setting(50_000, allowed=ranges.at_least(_NEAREST))
    seed: int = 0

    def _learn(self, features: Features) -> None:
        directions = np.linalg.svd(self.matrix)[2].T
        decisive, rest = np.zeros(min(self.matrix.shape) + 1), np.zeros(min(self.matrix.shape) + 1)
        for _, z in arrays.pieces(features.penultimate):
            squares = np.cumsum((z @ directions) ** 2, axis=1)
            first = np.concatenate([np.zeros((len(z), 1)), squares], axis=1)[:, : len(decisive)]
            decisive += np.sqrt(first).sum(axis=0)
            rest += np.sqrt(np.maximum(squares[:, -1:] - first, 0.0)).sum(axis=0)
        count = int(np.argmin(np.abs(decisive - rest)))
        self.decisive, self.rest = directions[:, :count], directions[:, count:]
        places = arrays.draw_rows(features.ids, int(self.rows), self.seed)
        fitted = np.empty((len(places), self.rest.shape[1]), np.float32)
        for rows in arrays.chunks(len(places), self.rest.shape[0]):
            fitted[rows] = features.penultimate[places[rows]] @ self.rest
        self.bank = make_bank(fitted)

    def _rows_together(self, detectors: Sequence[ActSub], z: Doubles) -> Doubles:
        """Search the nearest fitted rows once."""
        cosines = top_means(arrays.unit(z @ self.rest), self.bank, [min(_NEAREST, len(self.bank))])
        nearness = np.maximum(-np.log(1 - np.minimum(cosines[:, 0], 1.0)), 0.0)
        inside = z @ self.decisive @ self.decisive.T
        energies = [energy(scale(inside, one.pruned) @ self.matrix.T + self.bias) for one in detectors]
        return np.stack(
            [of_one * nearness**one.weight for of_one, one in zip(energies, detectors, strict=True)], axis=1
        )
