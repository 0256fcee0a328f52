"""Detectors that need a second pass of the model over the images.

Such a method has an `ImagePass`. Its detector scores `Features` whose `logits` and `scores` are the outputs of that
pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from evaluation.detectors.base import Method, Scores
from evaluation.detectors.image_passes import CROPS, PERTURBED, WITH_DROPOUT, ImagePass
from evaluation.detectors.logits import energy, max_logit, msp
from evaluation.detectors.rank_one import WITHOUT_RANK_ONE
from evaluation.detectors.rows import Doubles, score_in_chunks
from evaluation.errors import EvaluationError
from evaluation.models.features import Features, Head


@dataclass(frozen=True)
class ImageMethod(Method):
    """A method with a second pass over the images; `make` is called with None for features and head.

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
    if not temperature > 0 or not epsilon >= 0:
        raise EvaluationError(
            f"{detector} needs a temperature above 0 and epsilon of at least 0, found {temperature} and {epsilon}; "
            "give others."
        )


def _require_two(detector: str, name: str, value: int) -> None:
    if value < 2:
        raise EvaluationError(f"{detector} needs {name} of at least 2, found {value}; give more.")


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
    _require_two("mc_dropout", "samples", samples)
    return PassScore(None, msp)


def make_mc_dropout_mi(features: Features | None, head: Head | None, samples: int = 50) -> PassScore:
    """Mutual information between the prediction and the dropout mask (MI).

    Formula: H(1/S sum_s p_s) - 1/S sum_s H(p_s), in nats; see `members.mutual_information`.
    Source: Gal et al., Deep Bayesian Active Learning with Image Data, ICML 2017, section 4.
    """
    _require_two("mc_dropout_mi", "samples", samples)
    return PassScore("mutual_information", lambda values: values[:, 0])


def make_cadet(features: Features | None, head: Head | None, views: int = 5) -> PassScore:
    """Negative intra-similarity of an image's crops (CADet's m_in); see `mean_cosine` and `crop`.

    Formula: -m_in.
    Source: Guille-Escuret et al., CADet: Fully Self-Supervised Out-Of-Distribution Detection With Contrastive
    Learning, NeurIPS 2023; for classifiers, with five transformations, BROAD, section 3. BROAD states neither the
    transformations nor the layer; crops of three quarters of the area, without flips or colour changes, and the
    penultimate features are ours.
    """
    _require_two("cadet", "views", views)
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


# The search of the unified benchmark (table 5 and its code). 0 means no perturbation, as in the optimizer paper.
_ODIN_GRID = {
    "temperature": (1000.0, 1.0, 10.0, 100.0),
    "epsilon": (0.0014, 0.0, 0.0005, 0.001, 0.002, 0.0024, 0.005, 0.01, 0.05, 0.1, 0.2),
}

_ODIN_RANGES = {"temperature": "above 0", "epsilon": "0 or more, in pixel values of [0, 1]"}

ODIN = ImageMethod(
    "odin",
    "ODIN",
    "Liang et al. 2018, section 3",
    make_odin,
    grid=_ODIN_GRID,
    reads="images",
    image_pass=PERTURBED,
    ranges=_ODIN_RANGES,
)
ODIN_MAX_LOGIT = ImageMethod(
    "odin_max_logit",
    "IP TS MLV",
    "FACETS, table of detectors",
    make_odin_max_logit,
    grid=_ODIN_GRID,
    reads="images",
    image_pass=PERTURBED,
    ranges=_ODIN_RANGES,
)
MC_DROPOUT = ImageMethod(
    "mc_dropout",
    "MC-dropout",
    "Gal and Ghahramani 2016, section 4",
    make_mc_dropout,
    grid={"samples": (50,)},
    reads="images",
    image_pass=WITH_DROPOUT,
    ranges={"samples": "2 or more"},
)
MC_DROPOUT_MI = ImageMethod(
    "mc_dropout_mi",
    "MC-dropout MI",
    "Gal et al. 2017, section 4",
    make_mc_dropout_mi,
    grid={"samples": (50,)},
    reads="images",
    image_pass=WITH_DROPOUT,
    ranges={"samples": "2 or more"},
)
CADET = ImageMethod(
    "cadet",
    "CADet m_in",
    "Guille-Escuret et al. 2023, section 3",
    make_cadet,
    grid={"views": (5,)},
    reads="images",
    image_pass=CROPS,
    ranges={"views": "2 or more"},
)
RANKFEAT = ImageMethod(
    "rankfeat",
    "RankFeat",
    "Song et al. 2022, section 3",
    make_rankfeat,
    reads="images",
    image_pass=WITHOUT_RANK_ONE,
)

IMAGE_METHODS: dict[str, ImageMethod] = {
    method.name: method for method in (ODIN, ODIN_MAX_LOGIT, MC_DROPOUT, MC_DROPOUT_MI, CADET, RANKFEAT)
}
