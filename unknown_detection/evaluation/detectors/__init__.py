"""Detectors, which score rows; higher scores mean more unknown.

Each declares what it is fitted on and what a search tries, takes its hyperparameters, and has `fit` and `score`:

    >>> from unknown_detection.evaluation import detectors
    >>> detectors.KNN.fits_on, detectors.KNN(k=5).clone(k=7)
    ('train', KNN(k=7))

`table()` describes all of them, and `DETECTORS` has one of each by the names of the command line. The base classes of
one's own are `Detector`, `RowDetector`, which checks and divides the rows, and `ImageDetector`, which runs the model
again.

Tested by `tests/evaluation/detectors/test_registry.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unknown_detection.evaluation.detectors import (
    images,
    learned,
    logits,
    mahalanobis,
    neighbors,
    openmax,
    penultimate,
    shaping,
)
from unknown_detection.evaluation.detectors.base import Detector, RowDetector
from unknown_detection.evaluation.detectors.images import (
    ODIN,
    CADet,
    ImageDetector,
    ImagePass,
    MCDropout,
    MCDropoutMI,
    ODINMaxLogit,
    RankFeat,
)
from unknown_detection.evaluation.detectors.learned import OODL, EnsF, EnsR, EnsV
from unknown_detection.evaluation.detectors.logits import (
    GEN,
    MSP,
    DeepEnsemble,
    Doctor,
    Energy,
    Entropy,
    KLMatching,
    LogitNorm,
    Margin,
    MaxLogit,
    MutualInformation,
    Temperature,
)
from unknown_detection.evaluation.detectors.mahalanobis import (
    RMDS,
    Mahalanobis,
    MahalanobisAll,
    MahalanobisFirst,
    MahalanobisLogits,
)
from unknown_detection.evaluation.detectors.neighbors import KNN, NNGuide, Relation
from unknown_detection.evaluation.detectors.openmax import OpenMax
from unknown_detection.evaluation.detectors.penultimate import FDBD, SHE, GradNorm, Residual, ViM
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
from unknown_detection.evaluation.detectors.shaping import ASH, ASHB, ASHP, DICE, SCALE, ReAct

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ASH", "ASHB", "ASHP", "DETECTORS", "DICE", "FDBD", "GEN", "GMM", "KNN", "MSP", "NCI", "NECO", "ODIN", "OODL",
    "RAS", "RMDS", "RMDSPP", "SCALE", "SHE", "VRA", "ActSub", "CADRef", "CADet", "CARef", "CoP", "CoRP",
    "DeepEnsemble", "Detector", "Doctor", "Energy", "EnsF", "EnsR", "EnsV", "Entropy", "GradNorm", "ImageDetector",
    "ImagePass", "KLMatching", "LogitNorm", "MCDropout", "MCDropoutMI", "Mahalanobis", "MahalanobisAll",
    "MahalanobisFirst", "MahalanobisLogits", "MahalanobisPP", "MahalanobisRadial", "Margin", "MaxLogit",
    "MutualInformation", "NNGuide", "ODINMaxLogit", "OpenMax", "RankFeat", "ReAct", "Relation", "Residual",
    "RowDetector", "Temperature", "ViM", "WeiPer", "table",
]  # fmt: skip


def __dir__() -> list[str]:
    """List what one chooses from and builds on, and none of what this module imports for itself."""
    return [*__all__]


_RECENT = (mahalanobis_pp, nci, vra, neco, kernel_pca, weiper, gmm, actsub, cadref, ras)

_FAMILIES = (logits, images, openmax, shaping, penultimate, neighbors, mahalanobis, *_RECENT, learned)

DETECTORS: Mapping[str, Detector] = {
    kind.name: kind()
    for family in _FAMILIES
    for kind in vars(family).values()
    if isinstance(kind, type) and issubclass(kind, Detector) and kind.name and kind.__module__ == family.__name__
}
"""A detector of each kind by its name, with its defaults, in the order of the families' modules and within them."""

_READS = {"features": "one pass", "members": "several models", "images": "a second pass over the images"}


def table() -> pd.DataFrame:
    """Describe every detector: its name, class, title, paper, what it needs and what it is fitted on, in words."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "name": one.name,
                "class": type(one).__name__,
                "title": one.title,
                "paper": one.source,
                "needs": ", ".join([_READS[one.reads], *(["the last layer"] if one.reads_head else []), *one.requires])
                + (f"; the scores of {', '.join(one.base_methods)}" if one.base_methods else ""),
                "fitted on": "" if one.fits_on == "none" else one.fits_on,
                "searched": ", ".join(one.search),
            }
            for one in DETECTORS.values()
        ]
    )
