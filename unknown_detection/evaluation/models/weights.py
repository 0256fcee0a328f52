"""Loads a model's weights from a file, strictly, and computes the model's digest."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builders.errors import NAMED, more
from unknown_detection.evaluation.errors import EvaluationError
from unknown_detection.evaluation.files import DAMAGED

_WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys of the state dict in checkpoints that also hold the optimizer's state."""


def read_state_dict(path: Path) -> dict[str, Any]:
    """Read weights as tensors on the CPU, from `.safetensors` or what `torch.save` wrote; no code in it is executed.

    The state dict may be inside a checkpoint under `state_dict`, `model_state_dict` or `model`, and all its names may
    have the prefix `module.` of `DataParallel`.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise EvaluationError(
            f"There is no weights file {path}. Check the path, or take published weights with --pretrained."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # before it refuses a damaged file, torch warns of what it finds there
            tensors: Any
            if path.suffix == ".safetensors":
                tensors = load_file(path)
            else:
                tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (*DAMAGED, pickle.UnpicklingError, SafetensorError) as error:
        # The message of torch explains how to disable the safety check, which is not advice to pass on.
        raise EvaluationError(
            f"Neither safetensors nor torch.load(weights_only=True) can read {path}; save the model's state_dict "
            "alone."
        ) from error
    if isinstance(tensors, Mapping):
        tensors = next((tensors[key] for key in _WRAPPERS if isinstance(tensors.get(key), Mapping)), tensors)
    if (
        not isinstance(tensors, Mapping)
        or not tensors
        or not all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in tensors.items())
    ):
        raise EvaluationError(f"{path} is not a state dict of tensors; save the model's state_dict alone.")
    if all(name.startswith("module.") for name in tensors):
        tensors = {name.removeprefix("module."): value for name, value in tensors.items()}
    return dict(tensors)


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
    sides = (weights, expected)
    shapes = [" for ".join(" x ".join(map(str, of[key].shape)) or "a number" for of in sides) for key in shaped]
    differing = {
        "missing": sorted(expected.keys() - weights.keys()),
        "unknown to the model": sorted(weights.keys() - expected.keys()),
        "of another shape": list(map(" ".join, zip(shaped, shapes, strict=True))),
    }
    problems = [
        f"{len(names):,} {problem} ({', '.join(names[:NAMED])}{more(names)})"
        for problem, names in differing.items()
        if names
    ]
    if problems:
        raise EvaluationError(
            f"{path} does not have exactly the {len(expected):,} tensors of {name}: {' and '.join(problems)}. Nothing "
            "was loaded; give the weights of this very model."
        )
    module.load_state_dict(weights, strict=True)


def model_digest(module: Any, description: Mapping[str, Any]) -> str:
    """Compute the SHA-256 that identifies a model: its weights, code and preprocessing.

    It covers the canonical JSON of `description` and a zero byte; then for each tensor of the state dict, sorted by
    name: the name, the dtype and the shape (one line each) and the values in row-major order, as little-endian bytes.
    So it is independent of the file's format, the device and library versions.
    """
    import torch

    digest = hashlib.sha256(json.dumps(description, sort_keys=True, separators=(",", ":")).encode() + b"\0")
    for name, tensor in sorted(module.state_dict().items()):
        dtype = str(tensor.dtype).removeprefix("torch.")
        digest.update(f"{name}\n{dtype}\n{','.join(map(str, tensor.shape))}\n".encode())
        octets = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        if sys.byteorder != "little":
            octets = octets.reshape(-1, tensor.element_size())[:, ::-1]
        digest.update(octets.tobytes())
    return digest.hexdigest()
