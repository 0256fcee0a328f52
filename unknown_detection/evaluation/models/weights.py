"""Loads a model's weights from a file, strictly, and computes the model's digest."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builders.errors import BuildError
from builders.generate import torch_files
from unknown_detection.evaluation.errors import EvaluationError, a_kind


def read_state_dict(path: Path) -> dict[str, Any]:
    """Read weights as tensors on the CPU, from `.safetensors` or what `torch.save` wrote; no code in it is executed.

    The state dict may be inside a checkpoint under `state_dict`, `model_state_dict` or `model`, and all its names may
    have the prefix `module.` of `DataParallel`.
    """
    if not path.is_file():
        raise EvaluationError(
            f"There is no weights file {path}. Check the path, or take published weights with --pretrained."
        )
    try:
        return torch_files.read_state_dict(path)
    except BuildError as error:
        raise EvaluationError(str(error)) from error


def load_weights(module: Any, weights: Mapping[str, Any], *, head: str, name: str, path: Path) -> None:
    """Load weights into a module; every name and shape must match. `head` names its last linear layer."""
    expected = module.state_dict()
    shaped = sorted(key for key in expected.keys() & weights.keys() if expected[key].shape != weights[key].shape)
    if expected.keys() == weights.keys() and {key.rpartition(".")[0] for key in shaped} == {head}:
        theirs, ours = (len(tensors[f"{head}.weight"]) for tensors in (weights, expected))
        raise EvaluationError(
            f"{path} has weights for {theirs:,} classes, but {name} needs {ours:,}. Use weights trained on the "
            "classes of this config, or say which of theirs these are with --classes."
        )
    try:
        torch_files.require_tensors(
            path, weights, expected, name, "Nothing was loaded. Give the weights of this very model."
        )
    except BuildError as error:
        raise EvaluationError(str(error)) from error
    module.load_state_dict(weights, strict=True)


def _extra_state(name: str, value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise EvaluationError(
            f"The state dict has {name}, {a_kind(value)} that is no JSON, so the model cannot be told from others. "
            "Return tensors, text or numbers from `get_extra_state`."
        ) from error


def model_digest(module: Any, description: Mapping[str, Any]) -> str:
    """Compute the SHA-256 that identifies a model: its weights, code and preprocessing.

    It covers the canonical JSON of `description` and a zero byte; then for each tensor of the state dict, sorted by
    name: the name, the dtype and the shape (one line each) and the values in row-major order, as little-endian bytes.
    So it is independent of the file's format, the device and library versions. Of what is no tensor in the state dict,
    a module's extra state, it covers the name and the canonical JSON.
    """
    import torch

    digest = hashlib.sha256(json.dumps(description, sort_keys=True, separators=(",", ":")).encode() + b"\0")
    for name, tensor in sorted(module.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            digest.update(f"{name}\n{_extra_state(name, tensor)}\n".encode())
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        digest.update(f"{name}\n{dtype}\n{','.join(map(str, tensor.shape))}\n".encode())
        octets = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        if sys.byteorder != "little":
            octets = octets.reshape(-1, tensor.element_size())[:, ::-1]
        digest.update(octets.tobytes())
    return digest.hexdigest()
