"""Second passes of a model over the images: perturbed, with dropout, or cropped.

All random numbers are drawn per row from its id, so that outputs do not depend on the batch. Those of dropout are
drawn on the model's device: another kind of device draws others.

Tested by `tests/evaluation/detectors/test_images.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.detectors.base import Scores
from evaluation.detectors.members import log_mean_softmax, mutual_information
from evaluation.detectors.rows import Doubles
from evaluation.errors import EvaluationError
from evaluation.models.models import Model, deterministic_float32

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class ImagePass:
    """A second pass of a model over images.

    Attributes:
        name: name of its folders in the feature store.
        run: called as `run(model, images, ids, seed=..., **hyperparameters)` with preprocessed images (B, 3, H, W) and
            their ids; returns columns of B rows. `logits` (B, C) become the logits of the detector's `Features`; the
            others become its `scores`.
        predicts: whether these logits make the method's prediction; if not, the model's logits do.
        random: whether the outputs depend on the seed.
        check: called with the model; raises `EvaluationError` if the pass cannot be used with it.
    """

    name: str
    run: Callable[..., Columns]
    predicts: bool = False
    random: bool = True
    check: Callable[[Model], object] = lambda model: None


def perturbed(model: Model, images: Any, temperature: float, epsilon: float) -> Any:
    """Perturb images so that the model becomes more confident: the input preprocessing of ODIN.

    Formula: x - epsilon sign(grad_x L(f(x) / T, y)) / std, with L the cross-entropy and y the predicted class. The
    division by the standard deviation of the preprocessing makes epsilon a step in pixel values of [0, 1]. As in the
    authors' code, nothing is clipped.
    Source: Liang et al., Enhancing The Reliability of Out-of-distribution Image Detection in Neural Networks, ICLR
    2018, section 3 and equation 2.

    Args:
        model: the model.
        images: preprocessed, shape (B, 3, H, W).
        temperature: T > 0.
        epsilon: at least 0; 0 leaves the images unchanged.

    Returns:
        Shape (B, 3, H, W), on the model's device.
    """
    import torch
    from torch.nn.functional import cross_entropy

    images = images.to(model.device)
    if epsilon == 0:
        return images
    with deterministic_float32(), torch.enable_grad():
        moved = images.clone().requires_grad_()
        logits = model.logits(moved) / temperature
        # A sum, not a mean, so that gradients do not depend on the batch size.
        loss = cross_entropy(logits, logits.argmax(dim=1), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, moved)
    std = images.new_tensor(model.preprocessing.std).view(1, -1, 1, 1)
    return images - epsilon * gradient.sign() / std


def run_perturbed(
    model: Model, images: Any, ids: Sequence[str], *, seed: int, temperature: float, epsilon: float
) -> Columns:
    """Return the logits of perturbed images, shape (B, C); the seed is not used."""
    import torch

    moved = perturbed(model, images, temperature, epsilon)
    with deterministic_float32(), torch.inference_mode():
        return {"logits": model.logits(moved).float().cpu().numpy()}


def run_with_dropout(model: Model, images: Any, ids: Sequence[str], *, seed: int, samples: float) -> Columns:
    """Run a model several times with its dropout layers enabled, and all others in eval mode.

    Returns:
        `logits`: the logarithm of the mean softmax, shape (B, C); `mutual_information`: shape (B,).

    Raises:
        EvaluationError: the model has no dropout layer with a positive rate.
    """
    import torch

    images = images.to(model.device)
    passes = []
    with deterministic_float32(), torch.inference_mode():
        for sample in range(int(samples)):
            seeds = [row_seed(seed, f"dropout {sample}", id_) for id_ in ids]
            with dropout_enabled(model, [torch.Generator(images.device).manual_seed(number) for number in seeds]):
                passes.append(model.logits(images).cpu().double().numpy())
    members = np.stack(passes)
    return {"logits": log_mean_softmax(members), "mutual_information": mutual_information(members)}


@contextmanager
def dropout_enabled(model: Model, generators: Sequence[Any]) -> Iterator[None]:
    """Enable dropout within the block, with a generator per row; all other layers stay in eval mode.

    This affects layers of the classes `Dropout`, `Dropout1d`, `Dropout2d` and `Dropout3d`, but neither functional
    dropout nor stochastic depth.

    Args:
        model: the model.
        generators: one `torch.Generator` on the model's device per row.

    Raises:
        EvaluationError: the model has no such layer.
    """
    with ExitStack() as hooks:
        for layer in dropout_layers(model):
            handle = layer.register_forward_hook(_drop(generators))
            hooks.callback(handle.remove)
        yield


def dropout_layers(model: Model) -> list[Any]:
    """Return the layers that `dropout_enabled` enables.

    Raises:
        EvaluationError: there are none.
    """
    from torch import nn

    kinds = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
    layers = [layer for layer in model.module.modules() if isinstance(layer, kinds) and layer.p > 0]
    if not layers:
        raise EvaluationError(
            f"{model.name} has no dropout layers with a positive rate. Leave mc_dropout and mc_dropout_mi out, or use "
            "a model trained with dropout."
        )
    return layers


def _drop(generators: Sequence[Any]) -> Callable[[Any, Any, Any], Any]:
    import torch
    from torch import nn

    def hook(layer: Any, _: Any, output: Any) -> Any:
        # `Dropout` drops single values, the others whole channels.
        shape = output.shape[1:]
        if not isinstance(layer, nn.Dropout):
            shape = (shape[0], *(1 for _ in shape[1:]))
        drawn = [torch.rand(shape, generator=generator, device=output.device) for generator in generators]
        kept = (torch.stack(drawn) >= layer.p).to(output.dtype)
        return output * kept / (1 - layer.p) if layer.p < 1 else output * 0

    return hook


def run_on_crops(model: Model, images: Any, ids: Sequence[str], *, seed: int, views: float) -> Columns:
    """Measure how similar a model's features of several crops of an image are.

    Returns:
        `similarity`: the mean cosine similarity of the penultimate features of two crops, shape (B,).
    """
    import torch

    images = images.to(model.device)
    features = []
    for view in range(int(views)):
        crops = [crop(image, row_seed(seed, f"crop {view}", id_)) for image, id_ in zip(images, ids, strict=True)]
        features.append(model.forward(torch.stack(crops)).penultimate.cpu().double().numpy())
    return {"similarity": mean_cosine(np.stack(features))}


CROPPED = 0.75
"""Fraction of an image's area that a crop covers."""


def crop(image: Any, seed: int) -> Any:
    """Return a random crop of three quarters of the area, resized bilinearly to the image's size.

    Args:
        image: shape (3, H, W).
        seed: determines the crop's position and its aspect ratio, 3/4 to 4/3 of the image's.
    """
    from torch.nn.functional import interpolate

    random = np.random.default_rng(seed)
    height, width = image.shape[1:]
    stretch = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    rows = min(height, max(1, round(height * math.sqrt(CROPPED / stretch))))
    columns = min(width, max(1, round(width * math.sqrt(CROPPED * stretch))))
    top, left = int(random.integers(height - rows + 1)), int(random.integers(width - columns + 1))
    cut = image[None, :, top : top + rows, left : left + columns]
    return interpolate(cut, size=(height, width), mode="bilinear", align_corners=False, antialias=True)[0]


def mean_cosine(features: Doubles) -> Scores:
    """Mean cosine similarity between two of several views of a row.

    Formula: m_in = 2 / (V (V - 1)) sum_{i < j} cos(z_i, z_j), in [-1, 1].

    Args:
        features: shape (V, n, D); the similarity to a zero vector is 0.

    Returns:
        Shape (n,).
    """
    views = len(features)
    lengths = np.linalg.norm(features, axis=2, keepdims=True)
    units = np.divide(features, lengths, out=np.zeros_like(features), where=lengths > 0)
    # The squared sum of unit vectors has every pair twice, and each vector with itself once.
    squares = np.einsum("vnd,vnd->n", units, units)
    total = units.sum(axis=0)
    similarity: Scores = (np.einsum("nd,nd->n", total, total) - squares) / (views * (views - 1))
    return similarity


def row_seed(seed: int, purpose: str, id_: str) -> int:
    """Derive a 63-bit seed for one row and purpose from the first bytes of a SHA-256."""
    digest = hashlib.sha256(f"{seed}\t{purpose}\t{id_}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


PERTURBED = ImagePass("perturbed", run_perturbed, random=False)
WITH_DROPOUT = ImagePass("dropout", run_with_dropout, predicts=True, check=dropout_layers)
CROPS = ImagePass("crops", run_on_crops)
