"""Showing a model the images again: perturbed, with dropout left on, or cropped.

Everything random is drawn for each row from its id, so that what is seen depends neither on the batch nor on the
device.

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
from evaluation.models.models import Model, exact

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Look:
    """A way to show a model images again.

    Attributes:
        name: as folders are named.
        run: called as `run(model, images, ids, seed=..., **hyperparameters)` with preprocessed images (B, 3, H, W) and
            their ids; gives columns of B rows. `logits` (B, C) becomes the logits of the detector's `Features`; the
            others become its `scores`.
        predicts: whether those logits are the method's own prediction, or the model's plain one stands.
        random: whether the seed matters.
        check: called with a model that it is to be used with; raises `EvaluationError` where that cannot be.
    """

    name: str
    run: Callable[..., Columns]
    predicts: bool = False
    random: bool = True
    check: Callable[[Model], object] = lambda model: None


def perturbed(model: Model, images: Any, temperature: float, epsilon: float) -> Any:
    """Move images so that the model becomes surer of what it predicts: the input preprocessing of ODIN.

    Formula: x - epsilon sign(grad_x L(f(x) / T, y)) / std, with L the cross-entropy and y the predicted class. The
    division by the standard deviation of the preprocessing makes epsilon a step in pixel values of [0, 1]. As in the
    authors' code, nothing is clipped.
    Source: Liang et al., Enhancing The Reliability of Out-of-distribution Image Detection in Neural Networks, ICLR
    2018, section 3 and equation 2.

    Args:
        model: the model.
        images: preprocessed, shape (B, 3, H, W).
        temperature: T > 0.
        epsilon: at least 0; with 0 the images stay.

    Returns:
        Shape (B, 3, H, W), on the model's device.
    """
    import torch
    from torch.nn.functional import cross_entropy

    images = images.to(model.device)
    if epsilon == 0:
        return images
    with exact(), torch.enable_grad():
        moved = images.clone().requires_grad_()
        logits = model.logits(moved) / temperature
        # A sum and no mean, so that gradients do not depend on how many images there are.
        loss = cross_entropy(logits, logits.argmax(dim=1), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, moved)
    std = images.new_tensor(model.preprocessing.std).view(1, -1, 1, 1)
    return images - epsilon * gradient.sign() / std


def look_perturbed(
    model: Model, images: Any, ids: Sequence[str], *, seed: int, temperature: float, epsilon: float
) -> Columns:
    """The logits of perturbed images, shape (B, C); nothing is random."""
    import torch

    moved = perturbed(model, images, temperature, epsilon)
    with exact(), torch.inference_mode():
        return {"logits": model.logits(moved).float().cpu().numpy()}


def look_with_dropout(model: Model, images: Any, ids: Sequence[str], *, seed: int, samples: float) -> Columns:
    """Run a model several times with its dropout layers on, and nothing else changed.

    Returns:
        `logits`: the logarithm of the mean softmax, shape (B, C); `mutual_information`: shape (B,).

    Raises:
        EvaluationError: the model has no dropout layer that drops anything.
    """
    import torch

    images = images.to(model.device)
    passes = []
    with exact(), torch.inference_mode():
        for sample in range(int(samples)):
            generators = [torch.Generator().manual_seed(row_seed(seed, f"dropout {sample}", id_)) for id_ in ids]
            with dropping(model, generators):
                passes.append(model.logits(images).double().cpu().numpy())
    members = np.stack(passes)
    return {"logits": log_mean_softmax(members), "mutual_information": mutual_information(members)}


@contextmanager
def dropping(model: Model, generators: Sequence[Any]) -> Iterator[None]:
    """Within the block, dropout layers drop, each row by its own generator; all other layers stay as they are.

    Layers are those of the classes `Dropout`, `Dropout1d`, `Dropout2d` and `Dropout3d`. What a model drops by calling
    a function is out of reach, and stochastic depth is no dropout.

    Args:
        model: the model.
        generators: one `torch.Generator` on the CPU for each row, so that masks are the same on every device.

    Raises:
        EvaluationError: there is no such layer.
    """
    with ExitStack() as hooks:
        for layer in dropout_layers(model):
            handle = layer.register_forward_hook(_drop(generators))
            hooks.callback(handle.remove)
        yield


def dropout_layers(model: Model) -> list[Any]:
    """The layers that `dropping` switches on.

    Raises:
        EvaluationError: there is none.
    """
    from torch import nn

    kinds = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
    layers = [layer for layer in model.module.modules() if isinstance(layer, kinds) and layer.p > 0]
    if not layers:
        raise EvaluationError(
            f"expected dropout layers in {model.name}, found none that drop anything; leave mc_dropout and "
            "mc_dropout_mi out, or take a model that was trained with dropout."
        )
    return layers


def _drop(generators: Sequence[Any]) -> Callable[[Any, Any, Any], Any]:
    import torch
    from torch import nn

    def hook(layer: Any, _: Any, output: Any) -> Any:
        # `Dropout` drops single numbers, the others whole channels.
        shape = output.shape[1:]
        if not isinstance(layer, nn.Dropout):
            shape = (shape[0], *(1 for _ in shape[1:]))
        drawn = torch.stack([torch.rand(shape, generator=generator) for generator in generators])
        kept = (drawn >= layer.p).to(output.device, output.dtype)
        return output * kept / (1 - layer.p) if layer.p < 1 else output * 0

    return hook


def look_at_crops(model: Model, images: Any, ids: Sequence[str], *, seed: int, views: float) -> Columns:
    """How alike a model finds several crops of an image.

    Returns:
        `similarity`: the mean cosine similarity of the penultimate features of two crops, shape (B,).
    """
    import torch

    images = images.to(model.device)
    features = []
    for view in range(int(views)):
        crops = [crop(image, row_seed(seed, f"crop {view}", id_)) for image, id_ in zip(images, ids, strict=True)]
        features.append(model.see(torch.stack(crops)).penultimate.double().cpu().numpy())
    return {"similarity": mean_cosine(np.stack(features))}


CROPPED = 0.75
"""Share of an image's area that a crop has."""


def crop(image: Any, seed: int) -> Any:
    """A random crop of three quarters of an image's area, brought back to the image's size by bilinear interpolation.

    Args:
        image: shape (3, H, W).
        seed: decides on the crop's sides, whose ratio is that of the image times between 3/4 and 4/3, and on its
            place.
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
    """The mean cosine similarity between two of several views of a row.

    Formula: m_in = 2 / (V (V - 1)) sum_{i < j} cos(z_i, z_j), in [-1, 1].

    Args:
        features: shape (V, n, D); features of zeros are like nothing.

    Returns:
        Shape (n,).
    """
    views = len(features)
    lengths = np.linalg.norm(features, axis=2, keepdims=True)
    units = np.divide(features, lengths, out=np.zeros_like(features), where=lengths > 0)
    # The square of a sum of unit vectors holds every pair twice and each vector with itself once.
    squares = np.einsum("vnd,vnd->n", units, units)
    total = units.sum(axis=0)
    similarity: Scores = (np.einsum("nd,nd->n", total, total) - squares) / (views * (views - 1))
    return similarity


def row_seed(seed: int, purpose: str, id_: str) -> int:
    """A number of 63 bits for one row and one purpose: the first bytes of a SHA-256."""
    digest = hashlib.sha256(f"{seed}\t{purpose}\t{id_}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


PERTURBED = Look("perturbed", look_perturbed, random=False)
WITH_DROPOUT = Look("dropout", look_with_dropout, predicts=True, check=dropout_layers)
CROPS = Look("crops", look_at_crops)
