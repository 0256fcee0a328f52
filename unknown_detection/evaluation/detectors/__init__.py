"""Detectors: classes whose instances score rows; higher scores mean more unknown.

Each declares what it is fitted on and what a search tries, takes its hyperparameters, and has `fit` and `score`:

    >>> from unknown_detection.evaluation import detectors
    >>> detectors.KNN.fits_on, detectors.KNN(k=5).k
    ('train', 5)

`table()` describes all of them. The base classes of one's own are `Detector`, `RowDetector`, which checks and divides
the rows, and `ImageDetector`, which runs the model on the images again.
"""

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
from unknown_detection.evaluation.detectors.registry import table
from unknown_detection.evaluation.detectors.shaping import ASH, ASHB, ASHP, DICE, SCALE, ReAct

__all__ = [
    "ASH", "ASHB", "ASHP", "DICE", "FDBD", "GEN", "KNN", "MSP", "ODIN", "OODL", "RMDS", "SCALE", "SHE", "CADet",
    "DeepEnsemble", "Detector", "Doctor", "Energy", "EnsF", "EnsR", "EnsV", "Entropy", "GradNorm", "ImageDetector",
    "ImagePass", "KLMatching", "LogitNorm", "MCDropout", "MCDropoutMI", "Mahalanobis", "MahalanobisAll",
    "MahalanobisFirst", "MahalanobisLogits", "Margin", "MaxLogit", "MutualInformation", "NNGuide", "ODINMaxLogit",
    "OpenMax", "RankFeat", "ReAct", "Relation", "Residual", "RowDetector", "Temperature", "ViM", "table",
]  # fmt: skip
