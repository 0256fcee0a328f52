"""Detectors that read what the model sees when it is shown the images again.

Such a method has a `Look`. Its detector scores `Features` whose `logits` and `scores` hold what the look kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from evaluation.detectors.base import Method, Scores
from evaluation.detectors.logits import max_logit, msp
from evaluation.detectors.looks import CROPS, PERTURBED, WITH_DROPOUT, Look
from evaluation.detectors.rows import Doubles, by_rows
from evaluation.models.features import Features, Head


@dataclass(frozen=True)
class ImageMethod(Method):
    """A method that reads images: `make` is called with None for the features and the head.

    Attributes:
        look: what its detector's `Features` come from.
    """

    look: Look = field(kw_only=True)


@dataclass(frozen=True)
class LookScore:
    """A detector that is a function of what a look saw of a row.

    Attributes:
        reads: the column of `Features.scores` that it is a function of; None for the logits.
        function: takes float64 logits (n, C), or a column (n, 1), and gives n scores.
    """

    reads: str | None
    function: Callable[[Doubles], Scores]

    def score(self, features: Features) -> Scores:
        """Score every row; shape (n,), higher = more unknown."""
        if self.reads is None:
            name, values = "logits that a look saw", features.logits
        else:
            name, values = self.reads, features.scores[self.reads][:, None]
        return by_rows(self.function, {name: values}, features.ids, doubles_each=4 * values.shape[1])


def make_odin(
    features: Features | None, head: Head | None, temperature: float = 1000.0, epsilon: float = 0.0014
) -> LookScore:
    """MSP of perturbed images at a temperature (ODIN); see `perturbed`.

    Formula: 1 - max_c softmax(f(x') / T)_c with x' the perturbed image.
    Source: Liang et al. 2018, section 3. The defaults are those of BROAD, section 3; the optimizer paper's ODIN has
    epsilon 0.
    """
    return LookScore(None, lambda logits: msp(logits, temperature))


def make_odin_max_logit(
    features: Features | None, head: Head | None, temperature: float = 1000.0, epsilon: float = 0.0014
) -> LookScore:
    """Negated maximum logit of perturbed images at a temperature (FACETS: IP TS MLV); see `perturbed`.

    Formula: -max_c f(x')_c / T with x' the perturbed image.
    Source: FACETS (Realistic OOD Detection benchmark), table of detectors; Liang et al. 2018, section 3, for x'.
    """
    return LookScore(None, lambda logits: max_logit(logits / temperature))


def make_mc_dropout(features: Features | None, head: Head | None, samples: float = 30) -> LookScore:
    """MSP of the mean softmax over passes with dropout (MC-dropout).

    Formula: 1 - max_c 1/S sum_s softmax(f_s(x))_c.
    Source: Gal and Ghahramani, Dropout as a Bayesian Approximation, ICML 2016, section 4; the maximum of the mean
    rather than the variance as in the unified unknown detection paper, section 4.
    """
    return LookScore(None, msp)


def make_mc_dropout_mi(features: Features | None, head: Head | None, samples: float = 30) -> LookScore:
    """Mutual information of the prediction and the dropout mask (MI).

    Formula: H(1/S sum_s p_s) - 1/S sum_s H(p_s), in nats; see `members.mutual_information`.
    Source: Gal et al., Deep Bayesian Active Learning with Image Data, ICML 2017, section 4.
    """
    return LookScore("mutual_information", lambda values: values[:, 0])


def make_cadet(features: Features | None, head: Head | None, views: float = 5) -> LookScore:
    """Negated intra-similarity of an image's crops (CADet's m_in); see `mean_cosine` and `crop`.

    Formula: -m_in.
    Source: Guille-Escuret et al., CADet: Fully Self-Supervised Out-Of-Distribution Detection With Contrastive
    Learning, NeurIPS 2023; for classifiers, with five transformations, BROAD, section 3. BROAD names neither the
    transformations nor the layer: here they are crops of three quarters of the area, without flips or colours, and the
    penultimate features.
    """
    return LookScore("similarity", lambda values: -values[:, 0])


# Liang et al. search T from 1 to 1,000 and epsilon from 0 to 0.004. The temperatures are those of OpenOOD's sweep,
# which has 0.0014 and 0.0028; 0 is no preprocessing, as in the optimizer paper.
_ODIN_GRID = {"temperature": (1000.0, 1.0, 10.0, 100.0), "epsilon": (0.0014, 0.0, 0.0028)}

ODIN = ImageMethod(
    "odin", "ODIN", "Liang et al. 2018, section 3", make_odin, grid=_ODIN_GRID, reads="images", look=PERTURBED
)
ODIN_MAX_LOGIT = ImageMethod(
    "odin_max_logit",
    "IP TS MLV",
    "FACETS, table of detectors",
    make_odin_max_logit,
    grid=_ODIN_GRID,
    reads="images",
    look=PERTURBED,
)
MC_DROPOUT = ImageMethod(
    "mc_dropout",
    "MC-dropout",
    "Gal and Ghahramani 2016, section 4",
    make_mc_dropout,
    grid={"samples": (30,)},
    reads="images",
    look=WITH_DROPOUT,
)
MC_DROPOUT_MI = ImageMethod(
    "mc_dropout_mi",
    "MC-dropout MI",
    "Gal et al. 2017, section 4",
    make_mc_dropout_mi,
    grid={"samples": (30,)},
    reads="images",
    look=WITH_DROPOUT,
)
CADET = ImageMethod(
    "cadet",
    "CADet m_in",
    "Guille-Escuret et al. 2023, section 3",
    make_cadet,
    grid={"views": (5,)},
    reads="images",
    look=CROPS,
)

IMAGE_METHODS: dict[str, ImageMethod] = {
    method.name: method for method in (ODIN, ODIN_MAX_LOGIT, MC_DROPOUT, MC_DROPOUT_MI, CADET)
}
