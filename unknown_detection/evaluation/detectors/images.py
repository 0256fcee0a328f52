"""Detectors that need a second pass of the model over the images, whose outputs they find in `Features.passed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from unknown_detection.evaluation.detectors.base import POSITIVE, RowDetector, at_least
from unknown_detection.evaluation.detectors.image_passes import (
    CROPS,
    PERTURBED,
    WITH_DROPOUT,
    WITHOUT_RANK_ONE,
    ImagePass,
)
from unknown_detection.evaluation.detectors.logits import energy, msp
from unknown_detection.evaluation.detectors.rows import Doubles, Scores
from unknown_detection.evaluation.models.features import Features, Floats


class ImageDetector(RowDetector):
    """A detector with a second pass over the images.

    It scores rows of `Features` that have the outputs of the pass in `passed`, and the model's own beside them.

    Attributes:
        image_pass: the pass, which is run again only for other values of the hyperparameters that it depends on.
        column: the output of the pass that is scored.
    """

    reads = "images"
    image_pass: ClassVar[ImagePass]
    column: ClassVar[str] = "logits"

    @classmethod
    def of_pass(cls, hyperparameters: Mapping[str, float]) -> dict[str, float]:
        """Select the hyperparameters that the pass depends on."""
        values = cls.parameters() | dict(hyperparameters)
        return {name: values[name] for name in cls.image_pass.depends_on}

    def _inputs(self, features: Features) -> dict[str, Floats]:
        values = features.passed[self.column]
        return {f"{self.column} of the second pass": values.reshape(len(values), -1)}


@dataclass
class ODIN(ImageDetector):
    """MSP of perturbed images with temperature scaling (ODIN); see `perturbed`.

    Formula: 1 - max_c softmax(f(x') / T)_c with x' the perturbed image.
    Source: Liang et al. 2018, section 3. The defaults are those of BROAD, section 3; the optimizer paper's ODIN has
    epsilon 0.
    """

    name, title, source = "odin", "ODIN", "Liang et al. 2018, section 3"
    image_pass = PERTURBED
    # The search of the unified benchmark (table 5 and its code). 0 means no perturbation, as in the optimizer paper.
    search: ClassVar = {
        "temperature": (1000.0, 1.0, 10.0, 100.0),
        "epsilon": (0.0014, 0.0, 0.0005, 0.001, 0.002, 0.0024, 0.005, 0.01, 0.05, 0.1, 0.2),
    }
    ranges: ClassVar = {"temperature": POSITIVE, "epsilon": at_least(0, "0 or more, in pixel values of [0, 1]")}

    temperature: float = 1000.0
    epsilon: float = 0.0014

    def _rows(self, logits: Doubles) -> Scores:
        return msp(logits, self.temperature)


class ODINMaxLogit(ODIN):
    """Negative maximum logit of perturbed images with temperature scaling (FACETS: IP TS MLV); see `perturbed`.

    Formula: -max_c f(x')_c / T with x' the perturbed image.
    Source: FACETS (Realistic OOD Detection benchmark), table of detectors; Liang et al. 2018, section 3, for x'.
    """

    name, title, source = "odin_max_logit", "IP TS MLV", "FACETS, table of detectors"

    def _rows(self, logits: Doubles) -> Scores:
        scores: Scores = -(logits / self.temperature).max(axis=1)
        return scores


@dataclass
class MCDropout(ImageDetector):
    """MSP of the mean softmax over passes with dropout (MC-dropout).

    Formula: 1 - max_c 1/S sum_s softmax(f_s(x))_c.
    Source: Gal and Ghahramani, Dropout as a Bayesian Approximation, ICML 2016, section 4; the maximum of the mean
    rather than the variance, and 50 passes, as in the unified unknown detection paper, section 4, and its code.
    """

    name, title, source = "mc_dropout", "MC-dropout", "Gal and Ghahramani 2016, section 4"
    image_pass = WITH_DROPOUT
    search: ClassVar = {"samples": (50,)}
    ranges: ClassVar = {"samples": at_least(2)}

    samples: int = 50

    def _rows(self, values: Doubles) -> Scores:
        return msp(values)


class MCDropoutMI(MCDropout):
    """Mutual information between the prediction and the dropout mask (MI).

    Formula and source: `members.mutual_information`, of passes with dropout in place of models.
    """

    name, title, source = "mc_dropout_mi", "MC-dropout MI", "Gal et al. 2017, section 4"
    column = "mutual_information"

    def _rows(self, values: Doubles) -> Scores:
        return values[:, 0]


@dataclass
class CADet(ImageDetector):
    """Negative intra-similarity of an image's crops (CADet's m_in); see `mean_cosine` and `crop`.

    Formula: -m_in.
    Source: Guille-Escuret et al., CADet: Fully Self-Supervised Out-Of-Distribution Detection With Contrastive
    Learning, NeurIPS 2023; for classifiers, with five transformations, BROAD, section 3. BROAD states neither the
    transformations nor the layer; crops of three quarters of the area, without flips or colour changes, and the
    penultimate features are ours.
    """

    name, title, source = "cadet", "CADet m_in", "Guille-Escuret et al. 2023, section 3"
    image_pass = CROPS
    column = "similarity"
    search: ClassVar = {"views": (5,)}
    ranges: ClassVar = {"views": at_least(2)}

    views: int = 5

    def _rows(self, values: Doubles) -> Scores:
        return -values[:, 0]


class RankFeat(ImageDetector):
    """Energy of the logits without the largest part of rank one of the maps (RankFeat); see `without_rank_one`.

    Formula: E((f_a(x) + f_b(x)) / 2), with E the energy and f_a, f_b the model whose last block, or the one before,
    has X - s_1 u_1 v_1^T in place of its output X: of channels and pixels, or of tokens and channels.
    Source: Song, Sebe and Wang, RankFeat: Rank-1 Feature Removal for Out-of-distribution Detection, NeurIPS 2022,
    section 3; blocks 3 and 4 fused at the logits, as in their tables. For models with other blocks, the last two that
    features are read from are ours.
    """

    name, title, source = "rankfeat", "RankFeat", "Song et al. 2022, section 3"
    image_pass = WITHOUT_RANK_ONE

    _rows = staticmethod(energy)
