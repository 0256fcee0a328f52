"""Detectors of models with text, whose head's weights are embeddings of the classes' names times a scale.

Tested by `tests/evaluation/detectors/test_text.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import FEATURES, RowDetector, Scores, setting
from unknown_detection.evaluation.detectors.images import Columns, ImageDetector, ImagePass
from unknown_detection.evaluation.detectors.logits import msp
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features, Floats, Head
from unknown_detection.evaluation.models.models import Model
from unknown_detection.evaluation.models.text import has_texts
from unknown_detection.precision import exact_float32

ADAPTING = ("adaneg", "ants", "tanl")
"""Detectors that are refused: each gathers what it compares a row with from the rows that were scored before."""


def cosines(z: Doubles, texts: Doubles) -> Doubles:
    """Return the cosines between rows and texts of unit length; those of a zero vector are 0."""
    products: Doubles = z @ texts.T
    lengths = np.sqrt(arrays.dots(z, z))
    products /= np.where(lengths > 0, lengths, 1)[:, None]
    return products


def require_texts(model: Model) -> None:
    """Refuse a model without texts of its classes."""
    if not has_texts(model.module):
        raise EvaluationError(f"{model.name} has no texts of its classes. Leave gl_mcm out, or use a model like CLIP.")


class MCM(RowDetector):
    """One minus the greatest softmax of the cosines between an image and the classes' texts (MCM).

    Formula: 1 - max_c exp(cos(z, t_c) / T) / sum_k exp(cos(z, t_k) / T).
    Source: Ming et al., Delving into Out-of-Distribution Detection with Vision-Language Representations, NeurIPS 2022,
    section 3, equation 1; T is 1 there, where the logits have 0.01.
    """

    name, title, source = "mcm", "MCM", "Ming et al. 2022, equation 1"
    compared = "pytorch-ood 0.4; the authors' code (ea7130f)"
    at_once = 256
    reads_head = True

    temperature: float = setting(1.0, allowed=ranges.POSITIVE)

    def _read_head(self, head: Head) -> None:
        if head.negatives is None:
            raise EvaluationError(
                f"{self.name} compares images with texts of classes, and this model has none. Use a model like CLIP, "
                "or leave the detector out."
            )
        self.texts = arrays.unit(head.weight.astype(np.float64))

    def _rows(self, z: Doubles) -> Scores:
        return msp(cosines(z, self.texts), self.temperature)


def run_local(model: Model, images: Any, ids: Sequence[str], *, seed: int, temperature: float) -> Columns:
    """Return the greatest softmax of the cosines between a patch and a class's text, of all patches; shape (B,)."""
    import torch

    require_texts(model)
    head = model.head
    assert head is not None
    with exact_float32(), torch.inference_mode():
        patches = model.module.local(images.to(model.device)).cpu().double()
        cosines = patches @ torch.from_numpy(arrays.unit(head.weight.astype(np.float64))).T
        return {"local": (cosines / temperature).softmax(dim=-1).amax(dim=(1, 2)).numpy()}


class GLMCM(ImageDetector, MCM):
    """MCM, less the greatest softmax of any patch's cosines (GL-MCM).

    Formula: S(z) - weight max_i max_c softmax(cos(z_i, t) / T)_c, with S as in `MCM` and z_i the patches' embeddings.
    Source: Miyai et al., GL-MCM: Global and Local Maximum Concept Matching for Zero-Shot Out-of-Distribution
    Detection, IJCV 2025 (arXiv 2304.04521), section 3; T and weight are 1.
    """

    name, title, source = "gl_mcm", "GL-MCM", "Miyai et al. 2025, section 3"
    compared = "the authors' code (8708a08)"
    image_pass = ImagePass("local", run_local, ("temperature",), random=False, check=require_texts)
    column = "local"

    weight: float = setting(1.0, allowed=ranges.at_least(0))

    def _inputs(self, features: Features) -> dict[str, Floats]:
        return {**self._read(features, (FEATURES,)), **super()._inputs(features)}

    def _rows(self, z: Doubles, *local: Doubles) -> Scores:
        return super()._rows(z) - self.weight * local[0][:, 0]


class NegLabel(MCM):
    """One minus the share that the classes have of the softmax beside negative labels, by groups of these (NegLabel).

    Formula: 1 - 1/G sum_g sum_c e(t_c) / (sum_c e(t_c) + sum_{n in g} e(n)) with e(t) = exp(cos(z, t) / T), the
    negative labels n divided at random into G groups of one size, and those left over not used.
    Source: Jiang et al., Negative Label Guided OOD Detection with Pretrained Vision-Language Models, ICLR 2024,
    equation 5 and section 3.3; T is 0.01 and G 100, as in the authors' code. They are chosen when features are
    extracted (`features.negatives`): nouns alone, and no class or kind of one. The authors' prompt is "The nice {}.".
    """

    name, title, source = "neglabel", "NegLabel", "Jiang et al. 2024, equation 5"
    compared = "the authors' code (3253db6)"

    temperature: float = setting(0.01, allowed=ranges.at_least(0.003))  # less leaves float64's range
    groups: int = setting(100, allowed=ranges.at_least(1))
    seed: int = 0

    def _read_head(self, head: Head) -> None:
        super()._read_head(head)
        if head.negatives is None or len(head.negatives) < self.groups:
            raise EvaluationError(
                f"{self.name} needs at least {self.groups} negative labels, and the features have "
                f"{0 if head.negatives is None else len(head.negatives)}. Extract them with negatives=True."
            )
        order = np.random.default_rng(self.seed).permutation(len(head.negatives))
        each = len(order) // self.groups
        self.negatives = arrays.unit(head.negatives.astype(np.float64))[order[: each * self.groups]]

    def _rows(self, z: Doubles) -> Scores:
        known = self._powers(z, self.texts).sum(axis=1, keepdims=True)
        unknown = self._powers(z, self.negatives).reshape(len(known), self.groups, -1).sum(axis=2)
        scores: Scores = (unknown / (unknown + known)).mean(axis=1)
        return scores

    def _powers(self, z: Doubles, texts: Doubles) -> Doubles:
        """Return e(t) / e(z), so that none is greater than one up to rounding."""
        values = cosines(z, texts)
        values -= 1
        values /= self.temperature
        return np.exp(values, out=values)
