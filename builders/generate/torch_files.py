"""Reads weights from untrusted files, and compares their tensors with those of a network.

Tested by `tests/builders/generate/adversarial/test_weights.py` and `tests/evaluation/models/test_weights.py`.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builders.errors import BuildError, one_line
from builders.release.images import DECODE_ERRORS
from unknown_detection.words import first_few

_WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys of the state dict in checkpoints that also hold the optimizer's state; mmcls uses the first."""

_PARALLEL = "module."
"""Prefix that `DataParallel` adds to every name."""


def read_state_dict(path: Path, advice: str = "Save the model's state_dict alone.") -> dict[str, Any]:
    """Read weights as tensors on the CPU, from `.safetensors` or what `torch.save` wrote; no code in it is executed.

    Raises:
        BuildError: the file cannot be read, or is no state dict of tensors; ends with `advice`.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # before it refuses a damaged file, torch warns of what it finds there
            tensors: Any = (
                load_file(path)
                if path.suffix == ".safetensors"
                else torch.load(path, map_location="cpu", weights_only=True)
            )
    # torch 2.14 raises many of them on files with flipped bytes. Its message explains how to disable the safety
    # check, which is not advice to pass on.
    except (*DECODE_ERRORS, MemoryError, pickle.UnpicklingError, SafetensorError) as error:
        raise BuildError(f"Neither safetensors nor torch.load(weights_only=True) can read {path}. {advice}") from error
    if isinstance(tensors, Mapping):
        tensors = next((tensors[key] for key in _WRAPPERS if isinstance(tensors.get(key), Mapping)), tensors)
    items = tensors.items() if isinstance(tensors, Mapping) else ()
    if not items or not all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in items):
        raise BuildError(f"{path} is not a state dict of tensors. {advice}")
    prefix = _PARALLEL if all(name.startswith(_PARALLEL) for name in tensors) else ""
    return {name.removeprefix(prefix): value for name, value in items}


def require_tensors(
    path: Path, tensors: Mapping[str, Any], expected: Mapping[str, Any], name: str, advice: str
) -> None:
    """Check that a file's tensors have the names and shapes of the network `name`; `BuildError` if not."""
    sizes, expected_sizes = (
        {key: tuple(value.shape) for key, value in group.items()} for group in (tensors, expected)
    )
    problems = {
        "missing": sorted(expected_sizes.keys() - sizes.keys()),
        "unknown to it": sorted(sizes.keys() - expected_sizes.keys()),
        "of another shape": [
            f"{key} {_shape(sizes[key])} for {_shape(expected_sizes[key])}"
            for key in sorted(expected_sizes.keys() & sizes.keys())
            if sizes[key] != expected_sizes[key]
        ],
    }
    refuse_problems(path, f"{len(expected):,} tensors of {name}", problems, advice)


def refuse_problems(path: Path, expected: str, problems: Mapping[str, Sequence[str]], advice: str) -> None:
    """Raise `BuildError` if any tensor has one of the problems."""
    named = [
        f"{len(names):,} {problem} ({first_few(list(map(one_line, names)))})"
        for problem, names in problems.items()
        if names
    ]
    if named:
        raise BuildError(f"{path} does not have exactly the {expected}: {' and '.join(named)}. {advice}")


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a number"
