"""Mahalanobis distances of features divided by their length or a power of it: Mahalanobis++, RMDS++ and radial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unknown_detection.evaluation.detectors.base import Doubles, at_least
from unknown_detection.evaluation.detectors.mahalanobis import RMDS, Mahalanobis


def radially_scaled(values: Doubles, beta: float) -> Doubles:
    """Divide rows, shape (n, D), by their Euclidean norm to the power beta; rows of zeros stay."""
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(norms > 0, norms, 1.0) ** beta


class MahalanobisPP(Mahalanobis):
    """Mahalanobis distance of features of length 1 to the nearest class (Mahalanobis++).

    Formula: as `Mahalanobis` with z / ||z|| in place of z, for the fit and for the score.
    Source: Müller and Hein, Mahalanobis++: Improving OOD Detection via Feature Normalization, ICML 2025, section 4.
    Nothing is to be set or searched.
    """

    name, title, source = "mahalanobis_pp", "Mahalanobis++", "Müller and Hein 2025, section 4"
    compared = "the authors' code (53de550); scikit-learn"

    def _map(self, values: Doubles) -> Doubles:
        return radially_scaled(values, 1.0)


class RMDSPP(RMDS):
    """Relative Mahalanobis distance of features of length 1 (relative Mahalanobis++).

    Formula: as `RMDS` with z / ||z|| in place of z, in the distance to the classes and to all rows.
    Source: Müller and Hein 2025, section 4, as `MahalanobisPP`.
    """

    name, title, source = "rmds_pp", "RMDS++", "Müller and Hein 2025, section 4"
    compared = MahalanobisPP.compared

    def _map(self, values: Doubles) -> Doubles:
        return radially_scaled(values, 1.0)


@dataclass
class MahalanobisRadial(Mahalanobis):
    """Mahalanobis distance of radially scaled features.

    Formula: as `Mahalanobis` with z / ||z||^beta in place of z: beta = 0 is `Mahalanobis`, beta = 1 Mahalanobis++.
    Source: Janiak, Binkowski and Kajdanowicz, A Geometry-Based View of Mahalanobis OOD Detection, 2025 (arXiv
    2510.15202), the map phi_beta. The authors choose beta by spectra and intrinsic dimension of the known rows; here
    it is searched, and the default and the list are ours.
    """

    name, title, source = "mahalanobis_radial", "Mahalanobis (radial)", "Janiak et al. 2025, the map phi_beta"
    compared = "scikit-learn"
    search: ClassVar = {"beta": (1.0, 0.0, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0)}
    ranges: ClassVar = {"beta": at_least(0)}

    beta: float = 1.0

    def _map(self, values: Doubles) -> Doubles:
        return radially_scaled(values, self.beta)
