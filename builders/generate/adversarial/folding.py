"""Folds batch norms into the convolutions before them, for gradients that take less time.

In eval mode a batch norm is a linear function of each channel, which a convolution can do as well. Autograd runs it as
a layer of its own, which takes a third of the time of networks with small convolutions.
"""

from __future__ import annotations

import copy
from typing import Any

from unknown_detection.precision import exact_float32

_TOLERANCE = 1e-4
"""How much logits may differ from those of the network itself, relative to the largest: float32 rounding."""


def fold_batch_norms(module: Any, pixels: Any) -> Any:
    """Return a copy of a network whose batch norms are folded into the convolutions before them.

    Returns the network itself if the copy's logits differ, as where another layer reads a convolution's output, too.

    Args:
        module: a `torch.nn.Module` in eval mode.
        pixels: some images, on which logits are compared.
    """
    import torch

    copied = copy.deepcopy(module)
    with torch.no_grad(), exact_float32():
        for convolution, name, norm in _pairs(copied, pixels):
            _fold(convolution, norm)
            parent, _, child = name.rpartition(".")
            setattr(copied.get_submodule(parent), child, _replacement(norm))
        expected, logits = module(pixels), copied(pixels)
    # Convolutions without a batch norm between them read what is stored pixel by pixel fastest.
    equal = bool((logits - expected).abs().max() <= _TOLERANCE * expected.abs().max())
    return copied.to(memory_format=torch.channels_last) if equal else module


def _pairs(module: Any, pixels: Any) -> list[tuple[Any, str, Any]]:
    """Return each convolution that a batch norm follows, with the norm's name and the norm."""
    import torch

    outputs: dict[int, tuple[Any, Any]] = {}
    pairs: list[tuple[Any, str, Any]] = []

    def after(layer: Any, _: Any, output: Any) -> None:
        outputs[id(output)] = (layer, output)  # kept, so that no other tensor gets its id

    def before(name: str) -> Any:
        def hook(layer: Any, inputs: tuple[Any, ...]) -> None:
            if id(inputs[0]) in outputs and layer.affine and layer.track_running_stats:
                pairs.append((outputs[id(inputs[0])][0], name, layer))

        return hook

    handles = []
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Conv2d):
            handles.append(layer.register_forward_hook(after))
        elif isinstance(layer, torch.nn.BatchNorm2d):
            handles.append(layer.register_forward_pre_hook(before(name)))
    module(pixels)
    for handle in handles:
        handle.remove()
    return pairs


def _fold(convolution: Any, norm: Any) -> None:
    """Change a convolution's weights so that it includes the batch norm after it."""
    import torch

    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    bias = 0 if convolution.bias is None else convolution.bias
    convolution.weight.mul_(scale.reshape(-1, 1, 1, 1))
    convolution.bias = torch.nn.Parameter(norm.bias + (bias - norm.running_mean) * scale, requires_grad=False)


def _replacement(norm: Any) -> Any:
    """Return the module that replaces a folded batch norm: the activation that timm puts into it, or the identity."""
    import torch

    activation = getattr(norm, "act", None)
    return torch.nn.Identity() if activation is None else torch.nn.Sequential(norm.drop, activation)
