"""A model on a device that takes pixels in [0, 1]: normalisation inside, eval mode, parameters frozen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.generate.adversarial.folding import fold_batch_norms
from builders.generate.adversarial.models import AttackedModel
from builders.generate.adversarial.weights import load_strictly, read_timm_weights
from unknown_detection.precision import exact_float32


class Predictions(NamedTuple):
    """Predicted classes of n images and their softmax probabilities, shape (n,) each."""

    predictions: npt.NDArray[np.int64]
    confidences: npt.NDArray[np.float64]
    own: npt.NDArray[np.float64]
    """The probability of each image's own class."""

    def rows(self, rows: slice) -> Predictions:
        """Predictions of some of the images."""
        return Predictions(self.predictions[rows], self.confidences[rows], self.own[rows])


class Network:
    """A model that is ready to be attacked.

    Attributes:
        model: its description.
        module: a `torch.nn.Module` from pixels in [0, 1], float32 (n, 3, size, size), to logits (n, classes).
        fast: the same network, up to rounding, with its batch norms folded into convolutions: for gradients.
        device: `cpu` or `cuda`.
        classes: number of logits.
    """

    def __init__(self, model: AttackedModel, module: Any, device: str) -> None:
        import torch

        self.model, self.device = model, device
        # Without `requires_grad_(False)` autograd also keeps what the gradients of the parameters would need.
        self.module = _normalised(module, model).eval().requires_grad_(False).to(device)
        with torch.inference_mode():
            logits = self.module(torch.zeros(1, 3, model.size, model.size, device=device))
        if not isinstance(logits, torch.Tensor) or logits.ndim != 2:
            raise BuildError(f"{model.name} does not return one row of logits per image. Give a classifier.")
        self.classes = int(logits.shape[1])
        pixels = torch.rand(1, 3, model.size, model.size, generator=torch.Generator().manual_seed(0))
        self.fast = fold_batch_norms(self.module, pixels.to(device))

    def pixels(self, images: npt.NDArray[np.uint8]) -> Any:
        """Images of shape (n, size, size, 3) as a tensor on the device: float32 in [0, 1], (n, 3, size, size)."""
        import torch

        tensor = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).to(self.device)
        return tensor.float() / 255

    def judge(self, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> Predictions:
        """Classify images of shape (n, size, size, 3) in float32, also where a device would rather use TF32."""
        import torch

        with torch.inference_mode(), exact_float32():
            probabilities = torch.softmax(self.module(self.pixels(images)), dim=1)
            confidences, predictions = probabilities.max(dim=1)
            own = probabilities.gather(1, torch.from_numpy(labels).to(self.device)[:, None])[:, 0]
        return Predictions(predictions.cpu().numpy(), confidences.double().cpu().numpy(), own.double().cpu().numpy())


def load_network(model: AttackedModel, weights: Path, device: str, classes: Sequence[str]) -> Network:
    """Load a model's weights onto a device.

    Args:
        model: the model.
        weights: the file.
        device: `cpu` or `cuda`.
        classes: ids of the classes that the images have, in the order of the logits.

    Raises:
        BuildError: the weights do not fit, or have another number of classes.
    """
    import timm

    module = timm.create_model(model.architecture, pretrained=False)
    load_strictly(module, read_timm_weights(weights), weights, model.name)
    network = Network(model, module, device)
    if network.classes != len(classes):
        raise BuildError(
            f"{model.name} has {network.classes:,} classes, and the images have {len(classes):,}. Give a model of "
            "these classes with --model."
        )
    return network


def _normalised(module: Any, model: AttackedModel) -> Any:
    import torch

    class Normalised(torch.nn.Module):  # type: ignore[misc]  # torch is imported here
        def __init__(self) -> None:
            super().__init__()
            self.network = module
            self.register_buffer("mean", torch.tensor(model.mean).reshape(3, 1, 1))
            self.register_buffer("std", torch.tensor(model.std).reshape(3, 1, 1))

        def forward(self, pixels: Any) -> Any:
            return self.network((pixels - self.mean) / self.std)

    return Normalised()
