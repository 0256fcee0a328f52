"""Reads files of `torch.save`, of which somebody else may have written every byte.

Tested by `tests/builders/generate/adversarial/test_weights.py`.
"""

from __future__ import annotations

import pickle
import struct
import warnings
from pathlib import Path

from builders.errors import BuildError

_DAMAGED = (
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
)
"""What torch 2.14 raises on files with flipped bytes, of which many are no `UnpicklingError`."""


def load_tensors(path: Path, advice: str) -> object:
    """Read what a file holds, onto the CPU; no code in it is executed.

    Args:
        path: the file.
        advice: the next step if it cannot be read, as a sentence.

    Raises:
        BuildError: torch cannot read it with `weights_only=True`.
    """
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a damaged file's content before it refuses it
            return torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGED as error:
        raise BuildError(f"torch.load(weights_only=True) cannot read {path}. {advice}") from error
