"""Reads a model's weights from a file and loads them strictly; mmcls's names are mapped onto timm's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builders.errors import BuildError
from builders.generate.torch_files import load_tensors, tensor_problems

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
    """Load weights into a network; every name and shape has to fit.

    `num_batches_tracked` may be missing, as in files of torch before 0.4.1; networks in eval mode do not read it.

    Args:
        module: a `torch.nn.Module`.
        weights: tensors by name.
        path: their file, for messages.
        name: the network, for messages.

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
