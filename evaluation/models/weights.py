"""Weights from a file into a model: all of them, nothing else, and their digest."""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.errors import EvaluationError

_WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts keep the weights beside their optimizer's state."""

_PARALLEL = "module."
"""What `DataParallel` puts before every name."""

_SHOWN = 3


def read_weights(path: Path) -> dict[str, Any]:
    """Read weights as tensors on the CPU; nothing that a file holds is executed.

    Args:
        path: `.safetensors`, or what `torch.save` wrote of a state dict. The state dict may lie in a checkpoint under
            `state_dict`, `model_state_dict` or `model`, and its names may all begin with `module.`, as `DataParallel`
            leaves them.

    Raises:
        EvaluationError: there is no such file, or it holds something else.
    """
    import torch

    if not path.is_file():
        raise EvaluationError(
            f"expected weights in the file {path}, found nothing there; weights are never downloaded, so get them "
            "first."
        )
    try:
        if path.suffix == ".safetensors":
            from safetensors import SafetensorError
            from safetensors.torch import load_file

            try:
                found = load_file(path)
            except SafetensorError as error:
                raise ValueError(str(error)) from error
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, OSError) as error:
        # torch explains at length how to switch the safety off; that is no advice to pass on.
        raise EvaluationError(
            f"expected weights that safetensors or torch.load(weights_only=True) reads in {path}, found a file that "
            "they refuse; save the model's state_dict alone."
        ) from error
    for key in _WRAPPERS:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
            break
    if (
        not isinstance(found, Mapping)
        or not found
        or not all(isinstance(value, torch.Tensor) for value in found.values())
    ):
        raise EvaluationError(
            f"expected a state dict of tensors in {path}, found something else; save the model's state_dict alone."
        )
    if all(name.startswith(_PARALLEL) for name in found):
        found = {name.removeprefix(_PARALLEL): value for name, value in found.items()}
    return dict(found)


def load_weights(module: Any, weights: Mapping[str, Any], *, head: str, name: str, path: Path) -> None:
    """Put weights into a model, each of them into the place of its name and shape.

    Args:
        module: a `torch.nn.Module`.
        weights: as `read_weights` gives them.
        head: name of the last linear layer, whose shape is the number of classes.
        name: what to call the model in messages.
        path: what to call the weights in messages.

    Raises:
        EvaluationError: a name is missing or left over, or a shape differs.
    """
    wanted = module.state_dict()
    missing = sorted(wanted.keys() - weights.keys())
    strange = sorted(weights.keys() - wanted.keys())
    shaped = sorted(key for key in wanted.keys() & weights.keys() if wanted[key].shape != weights[key].shape)
    at_head = f"{head}.weight"
    if not missing and not strange and shaped and {key.rpartition(".")[0] for key in shaped} == {head}:
        raise EvaluationError(
            f"expected weights of {name} for {wanted[at_head].shape[0]:,} classes, found {path} with "
            f"{weights[at_head].shape[0]:,}; take weights that were trained on the classes of this config."
        )
    problems = [
        *_listed(missing, "that are missing"),
        *_listed(strange, "that the model does not have"),
        *_listed([f"{key} {_shape(weights[key])} for {_shape(wanted[key])}" for key in shaped], "of another shape"),
    ]
    if problems:
        raise EvaluationError(
            f"expected the {len(wanted):,} tensors of {name} in {path}, found {' and '.join(problems)}; nothing is "
            "loaded in part, so give the weights of exactly this model."
        )
    module.load_state_dict(weights, strict=True)


def model_digest(module: Any, about: Mapping[str, Any]) -> str:
    """SHA-256 that identifies what a model computes.

    Over the canonical JSON of `about` and a zero byte; then for each tensor of the state dict, sorted by name, over
    the name, the dtype and the shape (a line each) and its values in row-major order, as little-endian bytes. So it
    does not depend on the file's format, on the device or on the versions of libraries.

    Args:
        module: a model whose weights are loaded.
        about: what else decides: names of the model, preprocessing, source code.

    Returns:
        Lower-case hex.
    """
    import torch

    digest = hashlib.sha256(json.dumps(about, sort_keys=True, separators=(",", ":")).encode() + b"\0")
    for name, tensor in sorted(module.state_dict().items()):
        dtype = str(tensor.dtype).removeprefix("torch.")
        digest.update(f"{name}\n{dtype}\n{','.join(map(str, tensor.shape))}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(_little_endian(flat.view(torch.uint8).numpy(), tensor.element_size()))
    return digest.hexdigest()


def _little_endian(octets: Any, size: int) -> Any:
    turned = octets if sys.byteorder == "little" else octets.reshape(-1, size)[:, ::-1]
    return turned.tobytes()


def _listed(names: list[str], what: str) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return [f"{len(names):,} {what} ({', '.join(names[:_SHOWN])}{more})"]


def _shape(tensor: Any) -> str:
    return " x ".join(map(str, tensor.shape)) or "a number"
