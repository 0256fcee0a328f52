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


@dataclass(frozen=True)
class Config:
    """Sizes of a network, as `config.json` has them.

    Args:
        output_dim: width and height of an image.
        z_dim: numbers of noise.
        class_embed_dim: numbers that a class is embedded as.
        channel_width: the width.
        num_classes: classes.
        layers: the blocks in order.
        attention_layer_position: the attention stands before the block of this number.
        eps: added to variances.
        n_stats: sets of means and variances of activations, for truncations at equal steps from 0 to 1.
    """

    output_dim: int
    z_dim: int
    class_embed_dim: int
    channel_width: int
    num_classes: int
    layers: tuple[Layer, ...]
    attention_layer_position: int
    eps: float
    n_stats: int

    def row(self, truncation: float) -> int:
        """Return the number of the means and variances for a truncation.

        Raises:
            ValueError: there are none for it. The package that published the weights interpolates, with the two
                weights exchanged.
        """
        place = truncation * (self.n_stats - 1)
        if not 0 < truncation <= 1 or not math.isclose(place, round(place), rel_tol=0, abs_tol=1e-9):
            raise ValueError(f"truncation {truncation} is no multiple of {1 / (self.n_stats - 1):g} up to 1")
        return round(place)

    def blocks(self) -> dict[str, Layer]:
        """Return the blocks by the names of their tensors; those behind the attention are shifted by one."""
        names = (number + (number >= self.attention_layer_position) for number in range(len(self.layers)))
        return {f"generator.layers.{name}": layer for name, layer in zip(names, self.layers, strict=True)}

    @property
    def attention(self) -> str:
        """The name of the attention's tensors."""
        return f"generator.layers.{self.attention_layer_position}"

    @property
    def attention_channels(self) -> int:
        """Channels of the attention's input."""
        return self.channel_width * self.layers[self.attention_layer_position].channels_in

    @property
    def side(self) -> int:
        """Width and height of an image, by the number of blocks that double them."""
        return int(_FIRST * 2 ** sum(layer.upsamples for layer in self.layers))

    def shapes(self) -> dict[str, Shape]:
        """Return the shape of every tensor of the weights by its name."""
        width, condition = self.channel_width, self.z_dim + self.class_embed_dim
        first = _FIRST * _FIRST * _BASE * width
        found: dict[str, Shape] = {"embeddings.weight": (self.class_embed_dim, self.num_classes)}
        found |= _normed("generator.gen_z", (first, condition)) | {"generator.gen_z.bias": (first,)}
        for name, layer in self.blocks().items():
            found |= _block(name, layer.channels_in * width, layer.channels_out * width, condition, self.n_stats)
        channels = self.attention_channels
        for path, (of, to) in _ATTENTION.items():
            found |= _normed(f"{self.attention}.{path}", (channels // to, channels // of, 1, 1))
        found[f"{self.attention}.gamma"] = (1,)
        found |= _statistics("generator.bn", self.n_stats, width)
        found |= {"generator.bn.weight": (width,), "generator.bn.bias": (width,)}
        return found | _convolution("generator.conv_to_rgb", width, width, 3)


_ATTENTION: Mapping[str, tuple[int, int]] = {
    "snconv1x1_theta": (1, 8),
    "snconv1x1_phi": (1, 8),
    "snconv1x1_g": (1, 2),
    "snconv1x1_o_conv": (2, 1),
}
"""The attention's convolutions, and the parts of its channels that go in and come out."""

_KERNELS = (1, 3, 3, 1)
"""Kernels of a block's four convolutions."""


def _normed(name: str, shape: Shape) -> dict[str, Shape]:
    """A weight under spectral normalisation: its own tensor and its first singular vectors."""
    return {
        f"{name}.weight_orig": shape,
        f"{name}.weight_u": shape[:1],
        f"{name}.weight_v": (math.prod(shape[1:]),),
    }


def _convolution(name: str, of: int, to: int, kernel: int) -> dict[str, Shape]:
    return _normed(name, (to, of, kernel, kernel)) | {f"{name}.bias": (to,)}


def _statistics(name: str, rows: int, channels: int) -> dict[str, Shape]:
    return {f"{name}.running_means": (rows, channels), f"{name}.running_vars": (rows, channels)}


def _block(name: str, of: int, to: int, condition: int, rows: int) -> dict[str, Shape]:
    middle = of // _REDUCTION
    channels = (of, middle, middle, middle, to)
    found: dict[str, Shape] = {}
    for number, kernel in enumerate(_KERNELS):
        found |= _convolution(f"{name}.conv_{number}", channels[number], channels[number + 1], kernel)
        norm = f"{name}.bn_{number}"
        found |= _statistics(norm, rows, channels[number])
        found |= _normed(f"{norm}.scale", (channels[number], condition))
        found |= _normed(f"{norm}.offset", (channels[number], condition))
    return found


class Network:
    """The network at one truncation, in evaluation mode.

    Args:
        config: its sizes.
        tensors: the weights, float32, by the names of `Config.shapes`.
        truncation: of the noise; chooses the means and variances of activations.
        device: where it computes.

    Raises:
        ValueError: there are no means and variances for the truncation.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Tensor], truncation: float, device: str) -> None:
        self.config, self.device = config, device
        row = config.row(truncation)
        self._tensors = {name: _at_rest(tensors, name, row).to(device) for name in _folded_names(tensors)}

    def __call__(self, noise: Tensor, classes: Tensor) -> Tensor:
        """Generate images.

        Args:
            noise: float32 (n, z_dim), truncated already.
            classes: int64 (n,), indices of classes.

        Returns:
            float32 (n, 3, side, side) in [-1, 1].
        """
        from torch.nn import functional

        config, tensors = self.config, self._tensors
        # The column of a class in the weight is the product of the weight and the class as a one-hot vector.
        embedded = tensors["embeddings.weight"].T[classes]
        condition = _cat(noise, embedded)
        found = functional.linear(condition, tensors["generator.gen_z.weight"], tensors["generator.gen_z.bias"])
        found = found.view(-1, _FIRST, _FIRST, _BASE * config.channel_width).permute(0, 3, 1, 2)
        for number, (name, layer) in enumerate(config.blocks().items()):
            if number == config.attention_layer_position:
                found = self._attend(found)
            found = self._block(found, condition, name, layer)
        weight, bias = tensors["generator.bn.weight"], tensors["generator.bn.bias"]
        found = self._normalised(found, "generator.bn") * weight[:, None, None] + bias[:, None, None]
        return self._convolve(found.relu(), "generator.conv_to_rgb", 1)[:, :3].tanh()

    def _block(self, given: Tensor, condition: Tensor, name: str, layer: Layer) -> Tensor:
        found = given
        for number, kernel in enumerate(_KERNELS):
            found = self._conditioned(found, condition, f"{name}.bn_{number}").relu()
            if number == 1 and layer.upsamples:
                found = _doubled(found)
            found = self._convolve(found, f"{name}.conv_{number}", kernel // 2)
        # Surplus channels of the input are dropped on the way around the block.
        kept = given[:, : found.shape[1]]
        return found + (_doubled(kept) if layer.upsamples else kept)

    def _conditioned(self, given: Tensor, condition: Tensor, name: str) -> Tensor:
        from torch.nn import functional

        scale, offset = (
            functional.linear(condition, self._tensors[f"{name}.{part}.weight"])[:, :, None, None]
            for part in ("scale", "offset")
        )
        return self._normalised(given, name) * (1 + scale) + offset

    def _normalised(self, given: Tensor, name: str) -> Tensor:
        means, variances = self._tensors[f"{name}.running_means"], self._tensors[f"{name}.running_vars"]
        return (given - means[:, None, None]) / (variances[:, None, None] + self.config.eps).sqrt()

    def _convolve(self, given: Tensor, name: str, padding: int) -> Tensor:
        from torch.nn import functional

        bias = self._tensors.get(f"{name}.bias")
        return functional.conv2d(given, self._tensors[f"{name}.weight"], bias, padding=padding)

    def _attend(self, given: Tensor) -> Tensor:
        from torch.nn import functional

        name = self.config.attention
        theta, phi, values = (self._convolve(given, f"{name}.snconv1x1_{part}", 0) for part in ("theta", "phi", "g"))
        phi, values = (functional.max_pool2d(part, 2).flatten(2) for part in (phi, values))
        weights = (theta.flatten(2).transpose(1, 2) @ phi).softmax(-1)  # (n, places, pooled places)
        seen = (values @ weights.transpose(1, 2)).view(len(given), -1, *given.shape[2:])
        return given + self._tensors[f"{name}.gamma"] * self._convolve(seen, f"{name}.snconv1x1_o_conv", 0)


def _folded_names(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names of the tensors once spectral normalisation is done."""
    names = (name for name in tensors if not name.endswith((".weight_u", ".weight_v")))
    return [name.removesuffix("_orig") for name in names]


def _at_rest(tensors: Mapping[str, Tensor], name: str, row: int) -> Tensor:
    """A tensor as evaluation uses it: divided by its first singular value, or the row of the truncation."""
    if name.endswith((".running_means", ".running_vars")):
        return tensors[name][row]
    if f"{name}_orig" not in tensors:
        return tensors[name]
    weight = tensors[f"{name}_orig"]
    value = tensors[f"{name}_u"] @ (weight.flatten(1) @ tensors[f"{name}_v"])
    return weight / value


def _doubled(given: Tensor) -> Tensor:
    from torch.nn import functional

    return functional.interpolate(given, scale_factor=2, mode="nearest")


def _cat(*parts: Tensor) -> Tensor:
    import torch

    return torch.cat(parts, dim=1)
