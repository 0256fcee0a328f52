"""Detectors with a second pass of the model over the images; its outputs reach them as `Features.passed`.

The images are perturbed, shown with dropout, cropped, or without parts of rank one. All random numbers are drawn per
row from its id, so that outputs do not depend on the batch. Those of dropout are drawn on the model's device: another
kind of device draws others.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unknown_detection.evaluation.detectors import arrays, ranges
from unknown_detection.evaluation.detectors.base import Detector, RowDetector, Scores, setting
from unknown_detection.evaluation.detectors.logits import energy, log_mean_softmax, msp, mutual_information
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.models.features import Doubles, Features, Floats, Integers
from unknown_detection.evaluation.models.layers import channels_last
from unknown_detection.evaluation.models.models import Model
from unknown_detection.precision import exact_float32

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class ImagePass:
    """A second pass of a model over images.

    Attributes:
        name: name of its folders in the feature store. Outputs of a pass of one's own are kept until the run ends, by
            the name of its detector, too: its code may import what no digest of its file tells of.
        run: called as `run(model, images, ids, seed=..., **hyperparameters)` with preprocessed images (B, 3, H, W) and
            their ids; returns columns of B rows, which become `Features.passed`.
        depends_on: the hyperparameters that `run` is called with. A search over others does not run it again.
        predicts: whether its `logits` make the method's prediction; if not, the model's logits do.
        random: whether the outputs depend on the seed.
        check: called with the model; raises `EvaluationError` if the pass cannot be used with it.
        is_ordinary: called with the hyperparameters; whether the model's stored logits are the pass's, so that the
            images need not be looked at again.
    """

    name: str
    run: Callable[..., Columns]
    depends_on: tuple[str, ...] = ()
    predicts: bool = False
    random: bool = True
    check: Callable[[Model], object] = lambda model: None
    is_ordinary: Callable[[Mapping[str, float]], bool] = lambda hyperparameters: False

    def parameters(self, detector: Detector) -> dict[str, float]:
        """Return those hyperparameters of a detector that `run` is called with."""
        values = detector.parameters()
        return {name: values[name] for name in self.depends_on}


def perturbed(model: Model, images: Any, temperature: float, epsilon: float) -> Any:
    """Perturb images so that the model becomes more confident: the input preprocessing of ODIN.

    Formula: x - epsilon sign(grad_x L(f(x) / T, y)) / std, with L the cross-entropy and y the predicted class. The
    division by the standard deviation of the preprocessing makes epsilon a step in pixel values of [0, 1]. As in the
    authors' code, nothing is clipped.
    Source: Liang et al., Enhancing The Reliability of Out-of-distribution Image Detection in Neural Networks, ICLR
    2018, section 3 and equation 2.

    The images are preprocessed, shape (B, 3, H, W), as is the result, on the model's device.
    """
    import torch
    from torch.nn.functional import cross_entropy

    images = images.to(model.device)
    with exact_float32(), torch.enable_grad():
        moved = images.clone().requires_grad_()
        logits = model.logits(moved) / temperature
        # A sum, not a mean, so that gradients do not depend on the batch size.
        loss = cross_entropy(logits, logits.argmax(dim=1), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, moved)
    std = images.new_tensor(model.preprocessing.of_channels("std")).view(1, -1, 1, 1)
    return images - epsilon * gradient.sign() / std


def run_perturbed(
    model: Model, images: Any, ids: Sequence[str], *, seed: int, temperature: float, epsilon: float
) -> Columns:
    """Return the logits of perturbed images, shape (B, C); the seed is not used."""
    import torch

    moved = perturbed(model, images, temperature, epsilon)
    with exact_float32(), torch.inference_mode():
        return {"logits": model.logits(moved).float().cpu().numpy()}


def run_with_dropout(model: Model, images: Any, ids: Sequence[str], *, seed: int, samples: float) -> Columns:
    """Run a model several times with dropout; return the log of the mean softmax as `logits`, and MI, shape (B,)."""
    import torch

    images = images.to(model.device)
    passes = []
    with exact_float32(), torch.inference_mode():
        for sample in range(int(samples)):
            seeds = [row_seed(seed, f"dropout {sample}", id_) for id_ in ids]
            generators = [torch.Generator(images.device).manual_seed(number) for number in seeds]
            passes.append(model.logits(images, generators).cpu().double().numpy())
    members = np.stack(passes)
    return {"logits": log_mean_softmax(members), "mutual_information": mutual_information(members)}


def require_dropout(model: Model) -> None:
    """Refuse a model without dropout of a positive rate, in layers or called as a function."""
    if not model.dropout:
        raise EvaluationError(
            f"{model.name} has no dropout layers with a positive rate. Leave mc_dropout and mc_dropout_mi out, or use "
            "a model trained with dropout."
        )


def run_on_crops(model: Model, images: Any, ids: Sequence[str], *, seed: int, views: float) -> Columns:
    """Return `mean_cosine`, shape (B,): how alike the penultimate features of several crops of an image are."""
    import torch

    images = images.to(model.device)
    features = []
    for view in range(int(views)):
        crops = [crop(image, row_seed(seed, f"crop {view}", id_)) for image, id_ in zip(images, ids, strict=True)]
        features.append(model.forward(torch.stack(crops)).penultimate.cpu().double().numpy())
    return {"similarity": mean_cosine(np.stack(features))}


def crop(image: Any, seed: int) -> Any:
    """Return a random crop of three quarters of an image, shape (3, H, W), resized bilinearly to its size.

    The seed determines the crop's position and its aspect ratio, 3/4 to 4/3 of the image's.
    """
    from torch.nn.functional import interpolate

    random = np.random.default_rng(seed)
    height, width = image.shape[1:]
    stretch = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    rows = min(height, max(1, round(height * math.sqrt(0.75 / stretch))))
    columns = min(width, max(1, round(width * math.sqrt(0.75 * stretch))))
    top, left = int(random.integers(height - rows + 1)), int(random.integers(width - columns + 1))
    cut = image[None, :, top : top + rows, left : left + columns]
    return interpolate(cut, size=(height, width), mode="bilinear", align_corners=False, antialias=True)[0]


def mean_cosine(features: Doubles) -> Scores:
    """Mean cosine similarity, shape (n,), of the views of each row, given as features of shape (V, n, D).

    Formula: m_in = 2 / (V (V - 1)) sum_{i < j} cos(z_i, z_j), in [-1, 1]; the similarity to a zero vector is 0.
    """
    views, units = len(features), arrays.unit(features)
    # The squared sum of unit vectors has every pair twice, and each vector with itself once.
    squares = np.einsum("vnd,vnd->n", units, units)
    total = units.sum(axis=0)
    return (arrays.dots(total, total) - squares) / (views * (views - 1))


def row_seed(seed: int, purpose: str, id_: str) -> int:
    """Derive a 63-bit seed for one row and one purpose from the first bytes of a SHA-256."""
    digest = hashlib.sha256(f"{seed}\t{purpose}\t{id_}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def run_without_rank_one(model: Model, images: Any, ids: Sequence[str], *, seed: int) -> Columns:
    """Return the mean logits of a model whose last, and then second to last, block lacks its part of rank one."""
    import torch

    arrays.require_blocks(model.layers.blocks, RankFeat.name)
    images = images.to(model.device)
    passes = []
    with exact_float32(), torch.inference_mode():
        for block in model.layers.blocks[-2:]:
            with _rank_one_removed(model, block):
                passes.append(model.logits(images).cpu().double().numpy())
    return {"logits": np.mean(passes, axis=0)}


def without_rank_one(matrices: Any) -> Any:
    """Subtract from float32 matrices, shape (B, m, n), their best approximation of rank one, s_1 u_1 v_1^T.

    Where the two greatest singular values are equal, either part may be taken.
    """
    import torch

    if matrices.shape[1] < matrices.shape[2]:
        return without_rank_one(matrices.mT).mT
    # MPS has no float64. The eigenvector of the small X^T X is v_1, and X v_1 is s_1 u_1.
    doubles = (matrices.cpu() if matrices.device.type == "mps" else matrices).double()
    greatest = torch.linalg.eigh(doubles.mT @ doubles).eigenvectors[:, :, -1:]
    return (doubles - doubles @ greatest @ greatest.mT).to(matrices.device, matrices.dtype)


def _rank_one_removed(model: Model, block: str) -> Any:
    """Return what takes a block's part of rank one away within a `with`."""
    last = channels_last(model.module)

    def hook(_: Any, __: Any, output: Any) -> Any:
        # A matrix of channels and pixels, or of tokens and channels.
        maps = output.flatten(1, 2) if output.ndim == 4 and last else output.flatten(2) if output.ndim > 2 else None
        if maps is None or min(maps.shape[1:]) < 2:
            raise EvaluationError(
                f"Block {block} of {model.name} returns {tuple(output.shape[1:])} for an image, where rankfeat needs "
                "maps of several pixels, or tokens. Leave rankfeat out."
            )
        return without_rank_one(maps).reshape(output.shape)

    return model.module.get_submodule(block).register_forward_hook(hook)


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

    def predict(self, features: Features) -> Integers:
        """See `Detector.predict`; the pass may make the prediction."""
        return features.passed["logits"].argmax(axis=1) if self.image_pass.predicts else super().predict(features)

    def _inputs(self, features: Features) -> dict[str, Floats]:
        values = features.passed[self.column]
        return {f"{self.column} of the second pass": values.reshape(len(values), -1)}


class ODIN(ImageDetector):
    """MSP of perturbed images with temperature scaling (ODIN); see `perturbed`.

    Formula: 1 - max_c softmax(f(x') / T)_c with x' the perturbed image.
    Source: Liang et al. 2018, section 3. The defaults are those of BROAD, section 3; the optimizer paper's ODIN has
    epsilon 0.
    """

    name, title, source = "odin", "ODIN", "Liang et al. 2018, section 3"
    cost = "gradients"
    compared = "pytorch-ood 0.4"
    image_pass = ImagePass(
        "perturbed",
        run_perturbed,
        depends_on=("temperature", "epsilon"),
        random=False,
        is_ordinary=lambda hyperparameters: hyperparameters["epsilon"] == 0,
    )

    # The search of the unified benchmark (table 5 and its code). 0 means no perturbation, as in the optimizer paper.
    temperature: float = setting(1000.0, 1.0, 10.0, 100.0, allowed=ranges.POSITIVE)
    epsilon: float = setting(
        *(0.0014, 0.0, 0.0005, 0.001, 0.002, 0.0024, 0.005, 0.01, 0.05, 0.1, 0.2),
        allowed=ranges.at_least(0, "0 or more, in pixel values of [0, 1]"),
    )

    def _rows(self, logits: Doubles) -> Scores:
        return msp(logits, self.temperature)


class ODINMaxLogit(ODIN):
    """Negative maximum logit of perturbed images with temperature scaling (FACETS: IP TS MLV); see `perturbed`.

    Formula: -max_c f(x')_c / T with x' the perturbed image.
    Source: FACETS (Realistic OOD Detection benchmark), table of detectors; Liang et al. 2018, section 3, for x'.
    """

    name, title, source = "odin_max_logit", "ODIN (max logit)", "FACETS 2023, table of detectors"

    def _rows(self, logits: Doubles) -> Scores:
        return -(logits / self.temperature).max(axis=1)


class MCDropout(ImageDetector):
    """MSP of the mean softmax over passes with dropout (MC-dropout).

    Formula: 1 - max_c 1/S sum_s softmax(f_s(x))_c.
    Source: Gal and Ghahramani, Dropout as a Bayesian Approximation, ICML 2016, section 4; the maximum of the mean
    rather than the variance, and 50 passes, as in the unified unknown detection paper, section 4, and its code.
    """

    name, title, source = "mc_dropout", "MC-Dropout", "Gal and Ghahramani 2016, section 4"
    compared = "pytorch-ood 0.4"
    image_pass = ImagePass("dropout", run_with_dropout, ("samples",), predicts=True, check=require_dropout)

    samples: int = setting(50, allowed=ranges.at_least(2))

    def _rows(self, values: Doubles) -> Scores:
        return msp(values)


class MCDropoutMI(MCDropout):
    """Mutual information between the prediction and the dropout mask (MI).

    Formula and source: `logits.mutual_information`, of passes with dropout in place of models.
    """

    name, title, source = "mc_dropout_mi", "MC-Dropout (MI)", "Gal et al. 2017, section 4"
    column = "mutual_information"

    def _rows(self, values: Doubles) -> Scores:
        return values[:, 0]


class CADet(ImageDetector):
    """Negative intra-similarity of an image's crops (CADet's m_in); see `mean_cosine` and `crop`.

    Formula: -m_in.
    Source: Guille-Escuret et al., CADet: Fully Self-Supervised Out-Of-Distribution Detection With Contrastive
    Learning, NeurIPS 2023; for classifiers, with five transformations, BROAD, section 3. BROAD states neither the
    transformations nor the layer; crops of three quarters of the area, without flips or colour changes, and the
    penultimate features are ours.
    """

    name, title, source = "cadet", "CADet", "Guille-Escuret et al. 2023, section 3"
    image_pass = ImagePass("crops", run_on_crops, ("views",))
    column = "similarity"

    views: int = setting(5, allowed=ranges.at_least(2))

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
    compared = "pytorch-ood 0.4"
    image_pass = ImagePass(
        "without_rank_one",
        run_without_rank_one,
        random=False,
        check=lambda model: run_without_rank_one(model, model.probe, ["", ""], seed=0),
    )

    _rows = staticmethod(energy)
