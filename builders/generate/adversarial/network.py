"""A model on a device that takes pixels in [0, 1], loaded strictly from a person's file of weights.

Weights are timm's or torchvision's; the names of mmcls's vision transformer are mapped onto timm's. Gradients are
computed by a copy whose batch norms are folded into the convolutions before them: in eval mode a batch norm is a
linear function of each channel, which autograd runs as a layer of its own, and which takes a third of the time of
networks with small convolutions.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError
from builders.generate.adversarial.models import AttackedModel
from builders.generate.torch_files import load_tensors, tensor_problems
from unknown_detection.precision import exact_float32

_WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys of the state dict in checkpoints that hold more; mmcls uses the first."""

# mmcls's names in VisionTransformer and VisionTransformerClsHead (mmcls 0.16 and later), and timm's. The order of
# query, key and value in `qkv`, the epsilon of the norms (1e-6) and the exact GELU are the same.
_FROM_MMCLS = (
    (r"backbone\.(cls_token|pos_embed)", r"\1"),
    (r"backbone\.patch_embed\.projection\.(weight|bias)", r"patch_embed.proj.\1"),
    (r"backbone\.layers\.(\d+)\.ln([12])\.(weight|bias)", r"blocks.\1.norm\2.\3"),
    (r"backbone\.layers\.(\d+)\.attn\.(qkv|proj)\.(weight|bias)", r"blocks.\1.attn.\2.\3"),
    (r"backbone\.layers\.(\d+)\.ffn\.layers\.0\.0\.(weight|bias)", r"blocks.\1.mlp.fc1.\2"),
    (r"backbone\.layers\.(\d+)\.ffn\.layers\.1\.(weight|bias)", r"blocks.\1.mlp.fc2.\2"),
    (r"backbone\.ln1\.(weight|bias)", r"norm.\1"),
    (r"head\.layers\.head\.(weight|bias)", r"head.\1"),
)

_TOLERANCE = 1e-4
"""How much logits of the folded network may differ, relative to the largest: float32 rounding."""


class Predictions(NamedTuple):
    """Predicted classes of n images, their softmax probabilities, and those of the images' own classes: (n,) each."""

    predictions: npt.NDArray[np.int64]
    confidences: npt.NDArray[np.float64]
    own: npt.NDArray[np.float64]

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
        pixels = torch.rand(1, 3, model.size, model.size, generator=torch.Generator().manual_seed(0)).to(device)
        with torch.inference_mode():
            logits = self.module(pixels)
        if not isinstance(logits, torch.Tensor) or logits.ndim != 2:
            raise BuildError(f"{model.name} does not return one row of logits per image. Give a classifier.")
        self.classes = int(logits.shape[1])
        self.fast = fold_batch_norms(self.module, pixels)

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
    """Load a model's weights onto a device; `classes` are the ids of the images' classes in the logits' order.

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


def fold_batch_norms(module: Any, pixels: Any) -> Any:
    """Return a copy of a network in eval mode with each batch norm folded into the convolution defined before it.

    Returns the network itself if the copy's logits of some images differ, as where another layer reads a
    convolution's output, too.
    """
    import torch

    copied = copy.deepcopy(module)
    convolution = None
    with torch.no_grad(), exact_float32():
        for name, layer in list(copied.named_modules()):
            if isinstance(layer, torch.nn.Conv2d):
                convolution = layer
            elif isinstance(layer, torch.nn.BatchNorm2d) and layer.affine and layer.track_running_stats:
                if convolution is not None and convolution.out_channels == layer.num_features:
                    scale = layer.weight / torch.sqrt(layer.running_var + layer.eps)
                    bias = 0 if convolution.bias is None else convolution.bias
                    convolution.weight.mul_(scale.reshape(-1, 1, 1, 1))
                    folded = layer.bias + (bias - layer.running_mean) * scale
                    convolution.bias = torch.nn.Parameter(folded, requires_grad=False)
                    # timm puts an activation into some batch norms.
                    activation = (layer.drop, layer.act) if hasattr(layer, "act") else ()
                    copied.set_submodule(name, torch.nn.Sequential(*activation))
                convolution = None
        expected, logits = module(pixels), copied(pixels)
    # Convolutions without a batch norm between them read what is stored pixel by pixel fastest.
    equal = bool((logits - expected).abs().max() <= _TOLERANCE * expected.abs().max())
    return copied.to(memory_format=torch.channels_last) if equal else module


def read_timm_weights(path: Path) -> dict[str, Any]:
    """Read the tensors of a state dict that `torch.save` wrote, by timm's names; no code in the file is executed.

    Raises:
        BuildError: the file is no state dict of tensors.
    """
    import torch

    content = load_tensors(path, "Save the model's state_dict alone.")
    for key in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    items = content.items() if isinstance(content, Mapping) else ()
    if not items or not all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in items):
        raise BuildError(f"{path} is not a state dict of tensors. Save the model's state_dict alone.")
    return {timm_name(name.removeprefix("module.")): tensor for name, tensor in items}


def timm_name(name: str) -> str:
    """Return timm's name of a tensor of mmcls's vision transformer; any other name stays."""
    for pattern, replacement in _FROM_MMCLS:
        if match := re.fullmatch(pattern, name, re.ASCII):
            return match.expand(replacement)
    return name


def load_strictly(module: Any, weights: Mapping[str, Any], path: Path, name: str) -> None:
    """Load a file's weights into a network; every name and shape has to fit.

    `num_batches_tracked` may be missing, as in files of torch before 0.4.1; networks in eval mode do not read it.

    Raises:
        BuildError: a tensor is missing, unknown or of another shape.
    """
    tensors = module.state_dict()
    counters = {name: tensor for name, tensor in tensors.items() if name.endswith(".num_batches_tracked")}
    weights = {**counters, **weights}
    if problems := tensor_problems(weights, {name: tensor.shape for name, tensor in tensors.items()}):
        raise BuildError(
            f"{path} does not have the {len(tensors):,} tensors of {name}: {problems}. Give the weights of this very "
            "model with --weights."
        )
    module.load_state_dict(weights, strict=True)
