"""Reads a model's weights, loads them into a module, and computes the digest that identifies a model.

Tested by `tests/evaluation/models/test_weights.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builders.generate import torch_files
from unknown_detection.evaluation.errors import EvaluationError, evaluation_errors


def read_state_dict(path: Path) -> dict[str, Any]:
    """Read weights as tensors on the CPU, from `.safetensors` or what `torch.save` wrote; no code in it is executed.

    The state dict may be inside a checkpoint under `state_dict`, `model_state_dict` or `model`, and all its names may
    have the prefix `module.` of `DataParallel`.
    """
    if not path.is_file():
        raise EvaluationError(
            f"There is no weights file {path}. Check the path, or take published weights with pretrained=True."
        )
    with evaluation_errors():
        return torch_files.read_state_dict(path)


def load_weights(module: Any, tensors: Mapping[str, Any], *, name: str, path: Path) -> None:
    """Load weights into a module; every name and shape must match."""
    advice = "Nothing was loaded. Give the weights of this very model."
    with evaluation_errors():
        torch_files.require_tensors(path, tensors, module.state_dict(), name, advice)
    module.load_state_dict(tensors, strict=True)


def model_digest(module: Any, description: Mapping[str, Any]) -> str:
    """Compute the SHA-256 that identifies a model: its weights, code and preprocessing.

    It covers the canonical JSON of `description` and a zero byte; then for each tensor of the state dict, sorted by
    name: the name, the dtype and the shape (one line each) and the values in row-major order, as little-endian bytes
    (all machines that torch has wheels for are so). So it is independent of the file's format, the device and library
    versions. Of what is no tensor in the state dict, a module's extra state, it covers the name and the canonical
    JSON.
    """
    import torch

    write = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
    digest = hashlib.sha256(write(description).encode() + b"\0")
    for name, tensor in sorted(module.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            digest.update(f"{name}\n{write(tensor)}\n".encode())
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        digest.update(f"{name}\n{dtype}\n{','.join(map(str, tensor.shape))}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
