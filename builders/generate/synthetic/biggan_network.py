"""The generator network of BigGAN-deep, with its published weights.

Brock, Donahue and Simonyan, Large Scale GAN Training for High Fidelity Natural Image Synthesis (ICLR 2019), appendix
B, figure 16 and table 8. Names and shapes of the tensors are those of `pytorch_model.bin` as
pytorch-pretrained-biggan 0.1.1 saves it. Importing this module imports torch.

Tested by `tests/builders/generate/synthetic/test_biggan.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Tensor = Any

_CLASSES = 1_000
_EPSILON = 1e-4
_STATISTICS = 51
"""Sets of means and variances of activations, for truncations at equal steps from 0 to 1."""

_FIRST, _BASE = 4, 16
"""Width and height of the first resolution, and its channels in multiples of the width."""

# The published config.json of biggan-deep-256: whether a block doubles width and height, and its channels in
# multiples of the width.
LAYERS = (
    *((False, 16, 16), (True, 16, 16), (False, 16, 16), (True, 16, 8), (False, 8, 8), (True, 8, 8)),
    *((False, 8, 8), (True, 8, 4), (False, 4, 4), (True, 4, 2), (False, 2, 2), (True, 2, 1)),
)
_ATTENTION_BEFORE = 8


@dataclass(frozen=True)
class Sizes:
    """The sizes in which a network may differ from the published one; channels are multiples of the width."""

    noise: int = 128
    embedding: int = 128
    width: int = 128

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Sizes:
        """Return the sizes of the network with these weights; the published sizes if the weights do not show them."""
        try:
            embedding, width = tensors["embeddings.weight"].shape[0], tensors["generator.bn.weight"].shape[0]
            noise = tensors["generator.gen_z.weight_orig"].shape[1] - embedding
        except (KeyError, IndexError):
            return cls()
        return cls(noise, embedding, width) if min(noise, embedding, width) > 0 else cls()


class _Norm(nn.Module):  # type: ignore[misc]  # of torch nothing is known
    """Normalises by stored statistics; scale and offset follow from a condition, or without one are weights."""

    def __init__(self, channels: int, statistics: int, condition: int = 0) -> None:
        super().__init__()
        self._row = statistics
        self.register_buffer("running_means", torch.zeros(_STATISTICS, channels))
        self.register_buffer("running_vars", torch.zeros(_STATISTICS, channels))
        if condition:
            self.scale = nn.Linear(condition, channels, bias=False)
            self.offset = nn.Linear(condition, channels, bias=False)
        else:
            self.weight, self.bias = (nn.Parameter(torch.zeros(channels)) for _ in range(2))

    def forward(self, features: Tensor, condition: Tensor | None = None) -> Tensor:
        means, variances = (all_[self._row][:, None, None] for all_ in (self.running_means, self.running_vars))
        normalised = (features - means) / (variances + _EPSILON).sqrt()
        if condition is None:
            return normalised * self.weight[:, None, None] + self.bias[:, None, None]
        scale, offset = (layer(condition)[:, :, None, None] for layer in (self.scale, self.offset))
        return normalised * (1 + scale) + offset


class _ResidualBlock(nn.Module):  # type: ignore[misc]
    """A residual block, whose inner layers have a quarter of its channels."""

    def __init__(self, upsamples: bool, inputs: int, outputs: int, statistics: int, condition: int) -> None:
        super().__init__()
        self._upsamples = upsamples
        inner = inputs // 4
        channels = (inputs, inner, inner, inner, outputs)
        for number, kernel in enumerate((1, 3, 3, 1)):
            convolution = nn.Conv2d(channels[number], channels[number + 1], kernel, padding=kernel // 2)
            self.add_module(f"conv_{number}", convolution)
            self.add_module(f"bn_{number}", _Norm(channels[number], statistics, condition))

    def forward(self, inputs: Tensor, condition: Tensor) -> Tensor:
        features = inputs
        for number in range(4):
            features = self.get_submodule(f"bn_{number}")(features, condition).relu()
            if number == 1 and self._upsamples:
                features = functional.interpolate(features, scale_factor=2, mode="nearest")
            features = self.get_submodule(f"conv_{number}")(features)
        # Surplus channels of the input are dropped on the way around the block.
        shortcut = inputs[:, : features.shape[1]]
        if self._upsamples:
            shortcut = functional.interpolate(shortcut, scale_factor=2, mode="nearest")
        return features + shortcut


class _Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.snconv1x1_theta = nn.Conv2d(channels, channels // 8, 1, bias=False)
        self.snconv1x1_phi = nn.Conv2d(channels, channels // 8, 1, bias=False)
        self.snconv1x1_g = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.snconv1x1_o_conv = nn.Conv2d(channels // 2, channels, 1, bias=False)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, features: Tensor, _: Tensor) -> Tensor:
        theta = self.snconv1x1_theta(features).flatten(2).transpose(1, 2)
        phi, values = (
            functional.max_pool2d(layer(features), 2).flatten(2) for layer in (self.snconv1x1_phi, self.snconv1x1_g)
        )
        weights = (theta @ phi).softmax(-1)  # (n, places, pooled places)
        attended = (values @ weights.transpose(1, 2)).view(len(features), -1, *features.shape[2:])
        return features + self.gamma * self.snconv1x1_o_conv(attended)


class BigGANNetwork(nn.Module):  # type: ignore[misc]
    """The network for one truncation, with the names of the published weights but no values yet.

    Convolutions and linear layers are under spectral normalisation, with their first singular vectors. The truncation
    of the noise, a multiple of 0.02, chooses the means and variances of activations; the package that published the
    weights interpolates between them, with the two weights exchanged.
    """

    def __init__(self, sizes: Sizes, truncation: float = 0.0) -> None:
        super().__init__()
        self.sizes = sizes
        width, condition = sizes.width, sizes.noise + sizes.embedding
        statistics = round(truncation * (_STATISTICS - 1))
        with torch.device("meta"):
            layers: list[nn.Module] = [
                _ResidualBlock(upsamples, inputs * width, outputs * width, statistics, condition)
                for upsamples, inputs, outputs in LAYERS
            ]
            layers.insert(_ATTENTION_BEFORE, _Attention(LAYERS[_ATTENTION_BEFORE][1] * width))
            self.embeddings = nn.Linear(_CLASSES, sizes.embedding, bias=False)
            self.generator = nn.Module()
            self.generator.gen_z = nn.Linear(condition, _FIRST * _FIRST * _BASE * width)
            self.generator.layers = nn.ModuleList(layers)
            self.generator.bn = _Norm(width, statistics)
            self.generator.conv_to_rgb = nn.Conv2d(width, width, 3, padding=1)
            for layer in self._normalised_layers():
                nn.utils.spectral_norm(layer)

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], truncation: float, device: str) -> BigGANNetwork:
        """Return the network with some weights on a device, in evaluation mode."""
        network = cls(Sizes.of(tensors), truncation)
        network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
        network.eval().requires_grad_(False)
        for layer in network._normalised_layers():
            nn.utils.remove_spectral_norm(layer)
        network.to(device)
        return network

    def _normalised_layers(self) -> list[nn.Module]:
        return [layer for layer in self.generator.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]

    def forward(self, noise: Tensor, classes: Tensor) -> Tensor:
        """Generate images, float32 (n, 3, side, side) in [-1, 1].

        `noise` is float32 (n, sizes.noise), truncated already; `classes` are indices of classes, int64 (n,).
        """
        # The column of a class in the weight is the product of the weight and the class as a one-hot vector.
        condition = torch.cat((noise, self.embeddings.weight.T[classes]), dim=1)
        features = self.generator.gen_z(condition)
        features = features.view(-1, _FIRST, _FIRST, _BASE * self.sizes.width).permute(0, 3, 1, 2)
        for layer in self.generator.layers:
            features = layer(features, condition)
        return self.generator.conv_to_rgb(self.generator.bn(features).relu())[:, :3].tanh()
