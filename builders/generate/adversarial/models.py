"""Models that can be attacked: architecture, preparation of their images, and the accuracy on their weights' card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from builders.errors import BuildError, one_line
from builders.release.entries import PreparationEntry
from builders.release.schema import Value

_TIMM = "timm:"
"""Prefix of a model that is named as timm names it."""

_HALF = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class AttackedModel:
    """A classifier of ImageNet-1k, by its name in ids, columns and messages and timm's name of its network.

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
        """How originals are prepared at the model's own size, as its weights were evaluated."""
        return PreparationEntry(self.size, self.resize, self.interpolation)

    def parameters(self) -> dict[str, Value]:
        """Return the settings that attacked images depend on, as the manifest records them."""
        return {
            "model": self.name,
            "architecture": f"{_TIMM}{self.architecture}",
            "size": self.size,
            "resize": self.resize,
            "interpolation": self.interpolation,
            "mean": _numbers(self.mean),
            "std": _numbers(self.std),
        }

    @property
    def split_name(self) -> str:
        """The name as a part of a split's name."""
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


def model_named(name: str) -> AttackedModel:
    """Return a model by the value of `--model`.

    Raises:
        BuildError: there is no such model, or timm describes it in a way that cannot be used.
    """
    if name in MODELS:
        return MODELS[name]
    if not name.startswith(_TIMM):
        raise BuildError(
            f"--model {one_line(name)} is no model. Give {', '.join(MODELS)}, or {_TIMM}NAME with a name of timm's."
        )
    return _of_timm(name)


def _of_timm(name: str) -> AttackedModel:
    """Describe a model by timm's pretrained configuration."""
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
        name=architecture,
        architecture=architecture,
        size=height,
        resize=resize,
        interpolation=config.interpolation,
        mean=config.mean,
        std=config.std,
    )


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
