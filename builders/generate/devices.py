"""The flag `--device` of all models that make images, and what its values stand for.

Tested by `tests/builders/generate/adversarial/test_flags.py`.
"""

from __future__ import annotations

from builders.errors import BuildError
from builders.generate.flags import Flag

DEVICE = Flag("device", "Where models compute; auto takes the GPU if there is one.", ("auto", "cpu", "cuda"), "auto")


def chosen_device(wanted: str) -> str:
    """Return `cpu` or `cuda`; `auto` is the GPU where torch finds one.

    Raises:
        BuildError: a GPU is wanted, and torch finds none.
    """
    import torch

    if wanted == "cuda" and not torch.cuda.is_available():
        raise BuildError("torch finds no CUDA device on this machine. Leave --device out, or give --device cpu.")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


def device_name(device: str) -> str:
    """Return the name of a device for the manifest: the GPU's, or `cpu`."""
    import torch

    return str(torch.cuda.get_device_name()) if device == "cuda" else device
