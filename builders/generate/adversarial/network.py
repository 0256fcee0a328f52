"""Models that can be attacked: their description, and a network that takes pixels in [0, 1].

Weights are timm's or torchvision's, loaded strictly from a person's file; the names of mmcls's vision transformer are
mapped onto timm's. Gradients are computed by a copy whose batch norms are folded into the convolutions before them: in
eval mode a batch norm is a linear function of each channel, which autograd runs as a layer of its own, and which takes
a third of the time of networks with small convolutions.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from builders.errors import BuildError, one_line
from builders.generate.torch_files import read_state_dict, require_tensors
from builders.release.entries import PreparationEntry
from builders.release.schema import Value
from unknown_detection.precision import exact_float32

_TIMM = "timm:"
"""Prefix of a model that is named as timm names it."""

_HALF = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class AttackedModel:
    """A classifier of ImageNet-1k that can be attacked: its own name, timm's name of its network, and its input.

    Its input is `size` x `size` pixels, cropped from the centre after the shorter side was resized to `resize`; of
    pixels in [0, 1] `mean` is subtracted for each channel, and the rest divided by `std`. `accuracy` is the top-1
    accuracy on ILSVRC2012's validation images, of 1, and 0 if unknown; `card` says where all of this is from.
    """

    name: str
    architecture: str
    size: int
    resize: int
    interpolation: Literal["bilinear", "bicubic"]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    accuracy: float = 0.0
    card: str = ""

    @property
    def preparation(self) -> PreparationEntry:
        """How originals are prepared for the model's input, as for the evaluation of its weights."""
        return PreparationEntry(self.size, self.resize, self.interpolation)

    def parameters(self) -> dict[str, Value]:
        """Return the settings that attacked images depend on, as the manifest records them."""
        mean, std = (", ".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
        return {
            "model": self.name,
            "architecture": f"{_TIMM}{self.architecture}",
            "size": self.size,
            "resize": self.resize,
            "interpolation": self.interpolation,
            "mean": mean,
            "std": std,
        }

    @property
    def split_name(self) -> str:
        """The model's name in the form that a split's name has."""
        return re.sub("[^a-z0-9]+", "_", self.name).strip("_")


RESNET50 = AttackedModel(
    name="resnet50",
    architecture="resnet50",
    size=224,
    resize=256,
    interpolation="bilinear",
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    accuracy=0.7613,
    card="torchvision's ResNet50_Weights.IMAGENET1K_V1",
)
"""BROAD's convolutional network; the weights are torchvision's first ones (`resnet50-0676ba61.pth`, or the older file
`resnet50-19c8e357.pth`). timm's network of this name has the same tensors."""

VIT = AttackedModel(
    name="vit",
    architecture="vit_base_patch16_384",
    size=384,
    resize=384,
    interpolation="bilinear",
    mean=_HALF,
    std=_HALF,
    accuracy=0.8543,
    card="mmcls's vit-base-p16_in21k-pre-3rdparty_ft-64xb64_in1k-384",
)
"""BROAD's vision transformer, ViT-B/16 at 384 x 384. Its authors' evaluation uses mmcls's weights
(`vit-base-p16_in21k-pre-3rdparty_ft-64xb64_in1k-384_20210928-98e8652b.pth`), whose configuration resizes the shorter
side to 384 with Pillow's bilinear filter."""

MODELS: Mapping[str, AttackedModel] = {model.name: model for model in (RESNET50, VIT)}
"""The paper's two models."""

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


def model_named(name: str) -> AttackedModel:
    """Return the model that `--model` names; timm's pretrained configuration describes one of timm's."""
    if name in MODELS:
        return MODELS[name]
    if not name.startswith(_TIMM):
        raise BuildError(
            f"--model {one_line(name)} is no model. Give {', '.join(MODELS)}, or {_TIMM}NAME with a name of timm's."
        )
    from timm.models import get_pretrained_cfg

    architecture = name.removeprefix(_TIMM)
    try:
        config = get_pretrained_cfg(architecture)
    except RuntimeError:  # an unknown tag
        config = None
    if config is None or not re.fullmatch("[a-z0-9._]+", architecture):
        raise BuildError(f"--model {one_line(name)}: timm has no such model. `timm.list_models()` lists them.")
    _, height, width = config.input_size
    resize = int(height / config.crop_pct)  # as timm rounds it
    # A crop beyond the image, as VOLO's, is padded with black, which no original has.
    fills, filters = resize >= height, ("bilinear", "bicubic")
    if height != width or not fills or config.crop_mode != "center" or config.interpolation not in filters:
        raise BuildError(
            f"--model {name} takes images of {width} x {height} pixels, cropped by {config.crop_mode} after a "
            f"{config.interpolation} resize to {resize}. Give a model with square images, a centre crop within them, "
            "and bilinear or bicubic."
        )
    return AttackedModel(
        architecture, architecture, height, resize, config.interpolation, mean=config.mean, std=config.std
    )


class Predictions(NamedTuple):
    """The predicted classes of n images, their softmax probabilities, and those of the true classes: (n,) each."""

    predictions: npt.NDArray[np.int64]
    confidences: npt.NDArray[np.float64]
    own: npt.NDArray[np.float64]


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
        """Return images (n, size, size, 3) as a tensor on the device: float32 in [0, 1], (n, 3, size, size)."""
        import torch

        tensor = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).to(self.device)
        return tensor.float() / 255

    def judge(self, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64]) -> Predictions:
        """Classify images (n, size, size, 3) in full float32, even on devices that default to TF32."""
        import torch

        with torch.inference_mode(), exact_float32():
            probabilities = torch.softmax(self.module(self.pixels(images)), dim=1)
            confidences, predictions = probabilities.max(dim=1)
            own = probabilities.gather(1, torch.from_numpy(labels).to(self.device)[:, None])[:, 0]
        return Predictions(predictions.cpu().numpy(), confidences.double().cpu().numpy(), own.double().cpu().numpy())


def load_network(model: AttackedModel, weights: Path, device: str, classes: Sequence[str]) -> Network:
    """Load a model's weights onto a device; `classes` are the ids of the classes in the order of the logits."""
    import timm

    module = timm.create_model(model.architecture, pretrained=False)
    load_strictly(module, weights, model.name)
    network = Network(model, module, device)
    if network.classes != len(classes):
        raise BuildError(
            f"{model.name} has {network.classes:,} classes, and the images have {len(classes):,}. Give a model of "
            "these classes with --model."
        )
    return network


def load_strictly(module: Any, path: Path, name: str) -> None:
    """Load a file's weights into a network; every name and shape has to fit, else `BuildError`.

    `num_batches_tracked` may be missing, as in files of torch before 0.4.1; networks in eval mode do not read it.
    """
    expected = module.state_dict()
    counters = {name: tensor for name, tensor in expected.items() if name.endswith(".num_batches_tracked")}
    weights = counters | {timm_name(name): tensor for name, tensor in read_state_dict(path).items()}
    require_tensors(path, weights, expected, name, "Give the weights of this very model with --weights.")
    module.load_state_dict(weights, strict=True)


def timm_name(name: str) -> str:
    """Return timm's name for a tensor of mmcls's vision transformer; other names stay unchanged."""
    for pattern, replacement in _FROM_MMCLS:
        if match := re.fullmatch(pattern, name, re.ASCII):
            return match.expand(replacement)
    return name


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
    """Return a copy of a network in eval mode, with each batch norm folded into the convolution before it.

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
