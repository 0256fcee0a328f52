"""The generator network of BigGAN-deep, computed from the tensors of its published weights.

Brock, Donahue and Simonyan, Large Scale GAN Training for High Fidelity Natural Image Synthesis (ICLR 2019), appendix
B, figure 16 and table 8. Names and shapes of the tensors are those of `pytorch_model.bin` as
pytorch-pretrained-biggan 0.1.1 saves it. `torch` is imported in functions only.

Tested by `tests/builders/generate/synthetic/test_biggan.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Tensor = Any
Shape = tuple[int, ...]

_BASE = 16
"""Channels of the first resolution, in multiples of the width."""

_FIRST = 4
"""Width and height of the first resolution."""

_REDUCTION = 4
"""A block's inner layers have a quarter of its channels."""


@dataclass(frozen=True)
class Layer:
    """A residual block: whether it doubles width and height, and its channels in multiples of the width."""

    upsamples: bool
    channels_in: int
    channels_out: int


# The published config.json of biggan-deep-256.
LAYERS = (
    *(Layer(False, 16, 16), Layer(True, 16, 16), Layer(False, 16, 16), Layer(True, 16, 8)),
    *(Layer(False, 8, 8), Layer(True, 8, 8), Layer(False, 8, 8), Layer(True, 8, 4)),
    *(Layer(False, 4, 4), Layer(True, 4, 2), Layer(False, 2, 2), Layer(True, 2, 1)),
)
_ATTENTION_BEFORE = 8
_CLASSES = 1_000
_EPSILON = 1e-4
_STATISTICS = 51
"""Sets of means and variances of activations, for truncations at equal steps from 0 to 1."""

SIDE = _FIRST * 2 ** sum(layer.upsamples for layer in LAYERS)
"""Width and height of an image: 256."""

_ATTENTION_NAME = f"generator.layers.{_ATTENTION_BEFORE}"
_BLOCKS: Mapping[str, Layer] = {
    f"generator.layers.{number + (number >= _ATTENTION_BEFORE)}": layer for number, layer in enumerate(LAYERS)
}
"""The blocks by the names of their tensors; those behind the attention are shifted by one."""


@dataclass(frozen=True)
class Sizes:
    """Sizes in which a network may differ from the published one, whose sizes are the defaults.

    Args:
        noise: numbers of noise.
        embedding: numbers that a class is embedded as.
        width: channels are multiples of it.
    """

    noise: int = 128
    embedding: int = 128
    width: int = 128

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Sizes:
        """Return the sizes of the network of some weights; the published ones if the weights do not show them."""
        try:
            embedding, width = tensors["embeddings.weight"].shape[0], tensors["generator.bn.weight"].shape[0]
            noise = tensors["generator.gen_z.weight_orig"].shape[1] - embedding
        except (KeyError, IndexError):
            return cls()
        return cls(noise, embedding, width) if min(noise, embedding, width) > 0 else cls()

    def shapes(self) -> dict[str, Shape]:
        """Return the shape of every tensor of the weights by its name."""
        width, condition = self.width, self.noise + self.embedding
        first = _FIRST * _FIRST * _BASE * width
        shapes: dict[str, Shape] = {"embeddings.weight": (self.embedding, _CLASSES)}
        shapes |= _spectral_weight("generator.gen_z", (first, condition)) | {"generator.gen_z.bias": (first,)}
        for name, layer in _BLOCKS.items():
            shapes |= _block(name, layer.channels_in * width, layer.channels_out * width, condition)
        channels = width * LAYERS[_ATTENTION_BEFORE].channels_in
        for path, (inputs, outputs) in _ATTENTION.items():
            shapes |= _spectral_weight(f"{_ATTENTION_NAME}.{path}", (channels // outputs, channels // inputs, 1, 1))
        shapes[f"{_ATTENTION_NAME}.gamma"] = (1,)
        shapes |= _statistics("generator.bn", width)
        shapes |= {"generator.bn.weight": (width,), "generator.bn.bias": (width,)}
        return shapes | _convolution("generator.conv_to_rgb", width, width, 3)


_ATTENTION: Mapping[str, tuple[int, int]] = {
    "snconv1x1_theta": (1, 8),
    "snconv1x1_phi": (1, 8),
    "snconv1x1_g": (1, 2),
    "snconv1x1_o_conv": (2, 1),
}
"""The attention's convolutions: the divisors of its channels that give those of input and output."""

_KERNELS = (1, 3, 3, 1)
"""Kernels of a block's four convolutions."""


def _spectral_weight(name: str, shape: Shape) -> dict[str, Shape]:
    """Return the shapes of a weight under spectral normalisation and of its first singular vectors."""
    return {
        f"{name}.weight_orig": shape,
        f"{name}.weight_u": shape[:1],
        f"{name}.weight_v": (math.prod(shape[1:]),),
    }


def _convolution(name: str, inputs: int, outputs: int, kernel: int) -> dict[str, Shape]:
    return _spectral_weight(name, (outputs, inputs, kernel, kernel)) | {f"{name}.bias": (outputs,)}


def _statistics(name: str, channels: int) -> dict[str, Shape]:
    return {f"{name}.running_{kind}": (_STATISTICS, channels) for kind in ("means", "vars")}


def _block(name: str, inputs: int, outputs: int, condition: int) -> dict[str, Shape]:
    inner = inputs // _REDUCTION
    channels = (inputs, inner, inner, inner, outputs)
    shapes: dict[str, Shape] = {}
    for number, kernel in enumerate(_KERNELS):
        shapes |= _convolution(f"{name}.conv_{number}", channels[number], channels[number + 1], kernel)
        norm = f"{name}.bn_{number}"
        shapes |= _statistics(norm, channels[number])
        shapes |= _spectral_weight(f"{norm}.scale", (channels[number], condition))
        shapes |= _spectral_weight(f"{norm}.offset", (channels[number], condition))
    return shapes


class BigGANNetwork:
    """The network at one truncation, in evaluation mode.

    Args:
        sizes: its sizes.
        tensors: the weights, float32, by the names of `Sizes.shapes`.
        truncation: of the noise, a multiple of 0.02; chooses the means and variances of activations. The package that
            published the weights interpolates between them, with the two weights exchanged.
        device: where it computes.
    """

    def __init__(self, sizes: Sizes, tensors: Mapping[str, Tensor], truncation: float, device: str) -> None:
        self.sizes, self.device = sizes, device
        row = round(truncation * (_STATISTICS - 1))
        names = (name.removesuffix("_orig") for name in tensors if not name.endswith((".weight_u", ".weight_v")))
        self._tensors = {name: _for_evaluation(tensors, name, row).to(device) for name in names}

    def __call__(self, noise: Tensor, classes: Tensor) -> Tensor:
        """Generate images.

        Args:
            noise: float32 (n, sizes.noise), truncated already.
            classes: int64 (n,), indices of classes.

        Returns:
            float32 (n, 3, side, side) in [-1, 1].
        """
        import torch
        from torch.nn import functional

        tensors = self._tensors
        # The column of a class in the weight is the product of the weight and the class as a one-hot vector.
        embedded = tensors["embeddings.weight"].T[classes]
        condition = torch.cat((noise, embedded), dim=1)
        values = functional.linear(condition, tensors["generator.gen_z.weight"], tensors["generator.gen_z.bias"])
        values = values.view(-1, _FIRST, _FIRST, _BASE * self.sizes.width).permute(0, 3, 1, 2)
        for number, (name, layer) in enumerate(_BLOCKS.items()):
            if number == _ATTENTION_BEFORE:
                values = self._attend(values)
            values = self._block(values, condition, name, layer)
        weight, bias = tensors["generator.bn.weight"], tensors["generator.bn.bias"]
        values = self._normalised(values, "generator.bn") * weight[:, None, None] + bias[:, None, None]
        return self._convolve(values.relu(), "generator.conv_to_rgb", 1)[:, :3].tanh()

    def _block(self, inputs: Tensor, condition: Tensor, name: str, layer: Layer) -> Tensor:
        features = inputs
        for number, kernel in enumerate(_KERNELS):
            features = self._conditioned(features, condition, f"{name}.bn_{number}").relu()
            if number == 1 and layer.upsamples:
                features = _upsampled(features)
            features = self._convolve(features, f"{name}.conv_{number}", kernel // 2)
        # Surplus channels of the input are dropped on the way around the block.
        shortcut = inputs[:, : features.shape[1]]
        return features + (_upsampled(shortcut) if layer.upsamples else shortcut)

    def _conditioned(self, features: Tensor, condition: Tensor, name: str) -> Tensor:
        from torch.nn import functional

        scale, offset = (
            functional.linear(condition, self._tensors[f"{name}.{part}.weight"])[:, :, None, None]
            for part in ("scale", "offset")
        )
        return self._normalised(features, name) * (1 + scale) + offset

    def _normalised(self, features: Tensor, name: str) -> Tensor:
        means, variances = self._tensors[f"{name}.running_means"], self._tensors[f"{name}.running_vars"]
        return (features - means[:, None, None]) / (variances[:, None, None] + _EPSILON).sqrt()

    def _convolve(self, features: Tensor, name: str, padding: int) -> Tensor:
        from torch.nn import functional

        bias = self._tensors.get(f"{name}.bias")
        return functional.conv2d(features, self._tensors[f"{name}.weight"], bias, padding=padding)

    def _attend(self, features: Tensor) -> Tensor:
        from torch.nn import functional

        name = _ATTENTION_NAME
        theta, phi, values = (
            self._convolve(features, f"{name}.snconv1x1_{part}", 0) for part in ("theta", "phi", "g")
        )
        phi, values = (functional.max_pool2d(part, 2).flatten(2) for part in (phi, values))
        weights = (theta.flatten(2).transpose(1, 2) @ phi).softmax(-1)  # (n, places, pooled places)
        attended = (values @ weights.transpose(1, 2)).view(len(features), -1, *features.shape[2:])
        return features + self._tensors[f"{name}.gamma"] * self._convolve(attended, f"{name}.snconv1x1_o_conv", 0)


def _for_evaluation(tensors: Mapping[str, Tensor], name: str, row: int) -> Tensor:
    """Return a tensor as evaluation uses it: divided by its first singular value, or the row of the truncation."""
    if name.endswith((".running_means", ".running_vars")):
        return tensors[name][row]
    if f"{name}_orig" not in tensors:
        return tensors[name]
    weight = tensors[f"{name}_orig"]
    singular_value = tensors[f"{name}_u"] @ (weight.flatten(1) @ tensors[f"{name}_v"])
    return weight / singular_value


def _upsampled(features: Tensor) -> Tensor:
    from torch.nn import functional

    return functional.interpolate(features, scale_factor=2, mode="nearest")
