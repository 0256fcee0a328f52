"""The flag `--device` of all models that make images, what its values stand for, and full float32 on a GPU.

Tested by `tests/builders/generate/adversarial/test_flags.py`. `tests/test_gpu.py` compares a GPU with the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def exact_float32() -> Iterator[None]:
    """Compute products and convolutions within the block in full float32, and deterministically on a GPU.

    By default cuDNN rounds inputs to a 10-bit mantissa (TF32), and a program may allow the same for matrix products.
    """
    from torch import backends

    allowed = backends.cuda.matmul.allow_tf32
    backends.cuda.matmul.allow_tf32 = False
    try:
        with backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            yield
    finally:
        backends.cuda.matmul.allow_tf32 = allowed
