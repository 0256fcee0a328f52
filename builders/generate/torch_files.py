"""Reads untrusted files of `torch.save`, and compares their tensors with a network's.

Tested by `tests/builders/generate/adversarial/test_weights.py`.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builders.errors import BuildError, more, one_line
from builders.release.images import DECODE_ERRORS

_DAMAGED = (*DECODE_ERRORS, pickle.UnpicklingError)
"""What torch 2.14 raises on files with flipped bytes, of which many are no `UnpicklingError`."""

_NAMED = 2
"""Tensors that a message names."""


def load_tensors(path: Path, advice: str) -> object:
    """Load a file's content onto the CPU without executing code in it.

    Raises:
        BuildError: torch cannot read it with `weights_only=True`; ends with `advice`.
    """
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a damaged file's content before it refuses it
            return torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGED as error:
        raise BuildError(f"torch.load(weights_only=True) cannot read {path}. {advice}") from error


def tensor_problems(tensors: Mapping[str, Any], shapes: Mapping[str, Any]) -> str:
    """Describe how tensors differ from those of a network; empty if they have its names and shapes."""
    sizes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    misshapen = sorted(name for name in shapes.keys() & sizes.keys() if sizes[name] != tuple(shapes[name]))
    problems = {
        "missing": sorted(shapes.keys() - sizes.keys()),
        "unknown to it": sorted(sizes.keys() - shapes.keys()),
        "of another shape": [f"{name} {_shape(sizes[name])} for {_shape(shapes[name])}" for name in misshapen],
    }
    return " and ".join(
        f"{len(names):,} {problem} ({one_line(', '.join(names[:_NAMED]))}{more(names, _NAMED)})"
        for problem, names in problems.items()
        if names
    )


def _shape(shape: Any) -> str:
    return " x ".join(map(str, shape)) or "a number"
