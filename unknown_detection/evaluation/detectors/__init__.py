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

import re
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
    text,
)
from unknown_detection.evaluation.detectors.base import FEATURES, LOGITS, Detector, RowDetector
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
    adascale,
    cadref,
    combood,
    gmm,
    gram,
    kernel_pca,
    mahalanobis_pp,
    nac,
    nci,
    neco,
    ras,
    vra,
    weiper,
)
from unknown_detection.evaluation.detectors.recent.actsub import ActSub
from unknown_detection.evaluation.detectors.recent.adascale import AdaSCALEA, AdaSCALEL
from unknown_detection.evaluation.detectors.recent.cadref import CADRef, CARef
from unknown_detection.evaluation.detectors.recent.combood import CombOOD
from unknown_detection.evaluation.detectors.recent.gmm import GMM
from unknown_detection.evaluation.detectors.recent.gram import Gram
from unknown_detection.evaluation.detectors.recent.kernel_pca import CoP, CoRP
from unknown_detection.evaluation.detectors.recent.mahalanobis_pp import RMDSPP, MahalanobisPP, MahalanobisRadial
from unknown_detection.evaluation.detectors.recent.nac import NACUE
from unknown_detection.evaluation.detectors.recent.nci import NCI
from unknown_detection.evaluation.detectors.recent.neco import NECO
from unknown_detection.evaluation.detectors.recent.ras import RAS
from unknown_detection.evaluation.detectors.recent.vra import VRA
from unknown_detection.evaluation.detectors.recent.weiper import WeiPer
from unknown_detection.evaluation.detectors.shaping import ASH, ASHB, ASHP, DICE, SCALE, ReAct
from unknown_detection.evaluation.detectors.text import GLMCM, MCM, NegLabel

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ASH", "ASHB", "ASHP", "DETECTORS", "DICE", "FDBD", "GEN", "GLMCM", "GMM", "KNN", "MCM", "MSP", "NACUE", "NCI",
    "NECO", "ODIN", "OODL", "RAS", "RMDS", "RMDSPP", "SCALE", "SHE", "VRA", "ActSub", "AdaSCALEA", "AdaSCALEL",
    "CADRef", "CADet", "CARef", "CoP", "CoRP", "CombOOD", "DeepEnsemble", "Detector", "Doctor", "Energy", "EnsF",
    "EnsR", "EnsV", "Entropy", "GradNorm", "Gram", "ImageDetector", "ImagePass", "KLMatching", "LogitNorm",
    "MCDropout", "MCDropoutMI", "Mahalanobis", "MahalanobisAll", "MahalanobisFirst", "MahalanobisLogits",
    "MahalanobisPP", "MahalanobisRadial", "Margin", "MaxLogit", "MutualInformation", "NNGuide", "NegLabel",
    "ODINMaxLogit", "OpenMax", "RankFeat", "ReAct", "Relation", "Residual", "RowDetector", "Temperature", "ViM",
    "WeiPer", "table",
]  # fmt: skip


def __dir__() -> list[str]:
    """List what one chooses from and builds on, and none of what this module imports for itself."""
    return [*__all__]


_RECENT = (mahalanobis_pp, nci, vra, neco, kernel_pca, weiper, gmm, actsub, cadref, ras, combood, nac, adascale, gram)

_FAMILIES = (logits, images, openmax, shaping, penultimate, neighbors, mahalanobis, *_RECENT, text, learned)

DETECTORS: Mapping[str, Detector] = {
    kind.name: kind()
    for family in _FAMILIES
    for kind in vars(family).values()
    if isinstance(kind, type) and issubclass(kind, Detector) and kind.name and kind.__module__ == family.__name__
}
"""A detector of each kind by its name, with its defaults, in the order of the families' modules and within them."""

_BESIDES = {"members": "several models", "images": "images"}
_OF_LAYERS = {
    FEATURES: "features",
    LOGITS: "logits",
    "first block": "features of blocks",
    "blocks": "features of blocks",
}


def _needs(one: Detector) -> list[str]:
    """List what a detector needs: logits, features, the head or texts, rows to fit on, images, models, and so on."""
    layers = getattr(one, "inputs", ()) or (getattr(one, "layer", "blocks"),)
    read = [_BESIDES[one.reads]] if one.reads in _BESIDES else [_OF_LAYERS[layer] for layer in layers]
    scores = [f"scores of {' '.join(one.base_methods)}"] if one.base_methods else []
    rows = [] if one.fits_on == "none" else [one.fits_on]
    head = ["text" if isinstance(one, MCM) else "head"] if one.reads_head else []
    return [*(scores or read), *head, *rows, *one.requires]


def _cost(one: Detector) -> str:
    if one.cost:
        return one.cost
    if one.reads == "images":
        return "pass"
    return "values" if getattr(one, "inputs", None) == (LOGITS,) or one.base_methods else "products"


def table() -> pd.DataFrame:
    """Describe every detector in words: its names and paper, what it needs and costs, what it is compared with."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "name": one.name,
                "class": type(one).__name__,
                "title": one.title,
                "paper": one.source,
                "year": min(re.findall(r"\b(?:19|20)\d\d\b", one.source), default=""),
                "needs": ", ".join(_needs(one)),
                "fitted on": "" if one.fits_on == "none" else one.fits_on,
                "cost": _cost(one),
                "searched": ", ".join(one.search),
                "compared with": vars(type(one)).get("compared") or "a formula of the tests",
            }
            for one in DETECTORS.values()
        ]
    )
