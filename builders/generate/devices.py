"""The flag `--device` of all models that make images, and the devices that its values select.

Tested by `tests/builders/generate/adversarial/test_flags.py`.
"""

from __future__ import annotations

from builders.errors import BuildError
from builders.generate.flags import Flag

DEVICE = Flag("device", "Where models compute; auto takes the GPU if there is one.", ("auto", "cpu", "cuda"), "auto")


def chosen_device(device: str) -> str:
    """Return `cpu` or `cuda`; `auto` is the GPU where torch finds one.

    Raises:
        BuildError: the device is `cuda`, and torch finds no GPU.
    """
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise BuildError("torch finds no CUDA device on this machine. Leave --device out, or give --device cpu.")
    return "cuda" if device != "cpu" and has_gpu else "cpu"


def device_name(device: str) -> str:
    """Return the name of a device for the manifest: the GPU's, or `cpu`."""
    import torch

    return str(torch.cuda.get_device_name()) if device == "cuda" else device
