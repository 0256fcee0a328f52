"""Detectors of 2023 and later, a file each; `MODULES` lists them in the order of the table of detectors.

Tested by `tests/evaluation/detectors/recent/`.
"""

from __future__ import annotations

from unknown_detection.evaluation.detectors.recent import (
    actsub,
    cadref,
    gmm,
    kernel_pca,
    mahalanobis_pp,
    nci,
    neco,
    ras,
    vra,
    weiper,
)
from unknown_detection.evaluation.detectors.recent.actsub import ActSub
from unknown_detection.evaluation.detectors.recent.cadref import CADRef, CARef
from unknown_detection.evaluation.detectors.recent.gmm import GMM
from unknown_detection.evaluation.detectors.recent.kernel_pca import CoP, CoRP
from unknown_detection.evaluation.detectors.recent.mahalanobis_pp import RMDSPP, MahalanobisPP, MahalanobisRadial
from unknown_detection.evaluation.detectors.recent.nci import NCI
from unknown_detection.evaluation.detectors.recent.neco import NECO
from unknown_detection.evaluation.detectors.recent.ras import RAS
from unknown_detection.evaluation.detectors.recent.vra import VRA
from unknown_detection.evaluation.detectors.recent.weiper import WeiPer

__all__ = [
    "GMM", "NCI", "NECO", "RAS", "RMDSPP", "VRA", "ActSub", "CADRef", "CARef", "CoP", "CoRP", "MahalanobisPP",
    "MahalanobisRadial", "WeiPer",
]  # fmt: skip

MODULES = (mahalanobis_pp, nci, vra, neco, kernel_pca, weiper, gmm, actsub, cadref, ras)
