"""Detectors that need a second pass of the model over the images.

Such a method has an `ImagePass`. Its detector scores `Features` whose `logits` and `scores` are the outputs of that
pass. The functions `make_...` are called with None for features and head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from unknown_detection.evaluation.detectors.base import Method, Scores
from unknown_detection.evaluation.detectors.fitting import require_range
from unknown_detection.evaluation.detectors.image_passes import (
    CROPS,
    PERTURBED,
    WITH_DROPOUT,
    WITHOUT_RANK_ONE,
    ImagePass,
)
from unknown_detection.evaluation.detectors.logits import energy, max_logit, msp
from unknown_detection.evaluation.detectors.rows import Doubles, score_in_chunks
from unknown_detection.evaluation.models.features import Features, Head


@dataclass(frozen=True)
class ImageMethod(Method):
    """A method with a second pass over the images.

    Attributes:
        image_pass: the pass that computes its detector's `Features`.
    """

    image_pass: ImagePass = field(kw_only=True)


@dataclass(frozen=True)
class PassScore:
    """A detector that is a function of a row's outputs of a second pass.

    Attributes:
        reads: the column of `Features.scores` to read; None for the logits.
        function: maps float64 logits (n, C), or a column (n, 1), to n scores.
    """

    reads: str | None
    function: Callable[[Doubles], Scores]

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        if self.reads is None:
            name, values = "logits of the second pass", features.logits
        else:
            name, values = self.reads, features.scores[self.reads][:, None]
        return score_in_chunks(self.function, {name: values}, features.ids, doubles_per_row=4 * values.shape[1])


def _require_perturbation(detector: str, temperature: float, epsilon: float) -> None:
    rule = f"{detector} needs a temperature above 0 and epsilon of at least 0"
    require_range(temperature > 0 and epsilon >= 0, rule, temperature, epsilon)


def make_odin(
    features: Features | None, head: Head | None, temperature: float = 1000.0, epsilon: float = 0.0014
) -> PassScore:
    """MSP of perturbed images with temperature scaling (ODIN); see `perturbed`.

    Formula: 1 - max_c softmax(f(x') / T)_c with x' the perturbed image.
    Source: Liang et al. 2018, section 3. The defaults are those of BROAD, section 3; the optimizer paper's ODIN has
    epsilon 0.
    """
    _require_perturbation("odin", temperature, epsilon)
    return PassScore(None, lambda logits: msp(logits, temperature))


def make_odin_max_logit(
    features: Features | None, head: Head | None, temperature: float = 1000.0, epsilon: float = 0.0014
) -> PassScore:
    """Negative maximum logit of perturbed images with temperature scaling (FACETS: IP TS MLV); see `perturbed`.

    Formula: -max_c f(x')_c / T with x' the perturbed image.
    Source: FACETS (Realistic OOD Detection benchmark), table of detectors; Liang et al. 2018, section 3, for x'.
    """
    _require_perturbation("odin_max_logit", temperature, epsilon)
    return PassScore(None, lambda logits: max_logit(logits / temperature))


def make_mc_dropout(features: Features | None, head: Head | None, samples: int = 50) -> PassScore:
    """MSP of the mean softmax over passes with dropout (MC-dropout).

    Formula: 1 - max_c 1/S sum_s softmax(f_s(x))_c.
    Source: Gal and Ghahramani, Dropout as a Bayesian Approximation, ICML 2016, section 4; the maximum of the mean
    rather than the variance, and 50 passes, as in the unified unknown detection paper, section 4, and its code.
    """
    require_range(samples >= 2, "mc_dropout needs samples of at least 2", samples)
    return PassScore(None, msp)


def make_mc_dropout_mi(features: Features | None, head: Head | None, samples: int = 50) -> PassScore:
    """Mutual information between the prediction and the dropout mask (MI).

    Formula: H(1/S sum_s p_s) - 1/S sum_s H(p_s), in nats; see `members.mutual_information`.
    Source: Gal et al., Deep Bayesian Active Learning with Image Data, ICML 2017, section 4.
    """
    require_range(samples >= 2, "mc_dropout_mi needs samples of at least 2", samples)
    return PassScore("mutual_information", lambda values: values[:, 0])


def make_cadet(features: Features | None, head: Head | None, views: int = 5) -> PassScore:
    """Negative intra-similarity of an image's crops (CADet's m_in); see `mean_cosine` and `crop`.

    Formula: -m_in.
    Source: Guille-Escuret et al., CADet: Fully Self-Supervised Out-Of-Distribution Detection With Contrastive
    Learning, NeurIPS 2023; for classifiers, with five transformations, BROAD, section 3. BROAD states neither the
    transformations nor the layer; crops of three quarters of the area, without flips or colour changes, and the
    penultimate features are ours.
    """
    require_range(views >= 2, "cadet needs views of at least 2", views)
    return PassScore("similarity", lambda values: -values[:, 0])


def make_rankfeat(features: Features | None, head: Head | None) -> PassScore:
    """Energy of the logits without the largest part of rank one of the feature maps (RankFeat); see `rank_one`.

    Formula: E((f_a(x) + f_b(x)) / 2), with E the energy and f_a, f_b the model whose last block, or the one before,
    has X - s_1 u_1 v_1^T in place of its output X: of channels and pixels, or of tokens and channels.
    Source: Song, Sebe and Wang, RankFeat: Rank-1 Feature Removal for Out-of-distribution Detection, NeurIPS 2022,
    section 3; blocks 3 and 4 fused at the logits, as in their tables. For models with other blocks, the last two that
    features are read from are ours.
    """
    return PassScore(None, energy)


def _method(name: str, title: str, source: str, make: Callable[..., PassScore], image_pass: ImagePass) -> ImageMethod:
    """Describe a method, with the grid and the ranges of its pass."""
    grid, ranges = _SEARCHED.get(image_pass.name, ({}, {}))
    return ImageMethod(name, title, source, make, grid=grid, reads="images", image_pass=image_pass, ranges=ranges)


_SEARCHED: dict[str, tuple[dict[str, tuple[float, ...]], dict[str, str]]] = {
    PERTURBED.name: (
        # The search of the unified benchmark (table 5 and its code). 0 means no perturbation, as in the optimizer
        # paper.
        {
            "temperature": (1000.0, 1.0, 10.0, 100.0),
            "epsilon": (0.0014, 0.0, 0.0005, 0.001, 0.002, 0.0024, 0.005, 0.01, 0.05, 0.1, 0.2),
        },
        {"temperature": "above 0", "epsilon": "0 or more, in pixel values of [0, 1]"},
    ),
    WITH_DROPOUT.name: ({"samples": (50,)}, {"samples": "2 or more"}),
    CROPS.name: ({"views": (5,)}, {"views": "2 or more"}),
}
"""For each pass, the values of its hyperparameters that a search tries, and the values that they may have."""

_FACETS = "FACETS, table of detectors"
ODIN = _method("odin", "ODIN", "Liang et al. 2018, section 3", make_odin, PERTURBED)
ODIN_MAX_LOGIT = _method("odin_max_logit", "IP TS MLV", _FACETS, make_odin_max_logit, PERTURBED)
MC_DROPOUT = _method("mc_dropout", "MC-dropout", "Gal and Ghahramani 2016, section 4", make_mc_dropout, WITH_DROPOUT)
MC_DROPOUT_MI = _method(
    "mc_dropout_mi", "MC-dropout MI", "Gal et al. 2017, section 4", make_mc_dropout_mi, WITH_DROPOUT
)
CADET = _method("cadet", "CADet m_in", "Guille-Escuret et al. 2023, section 3", make_cadet, CROPS)
RANKFEAT = _method("rankfeat", "RankFeat", "Song et al. 2022, section 3", make_rankfeat, WITHOUT_RANK_ONE)

IMAGE_METHODS: dict[str, ImageMethod] = {
    method.name: method for method in (ODIN, ODIN_MAX_LOGIT, MC_DROPOUT, MC_DROPOUT_MI, CADET, RANKFEAT)
}
