"""Exact float32: models run without TF32 or bfloat16 in place of float32, whatever a model file has set.

`torch` is imported within functions only. `tests/test_gpu.py` compares a GPU with the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FLOAT32 = "ieee"
"""The recorded precision, by torch's name."""


@contextmanager
def exact_float32() -> Iterator[None]:
    """Compute products and convolutions within the block in full float32, and deterministically on a GPU.

    By default cuDNN may round inputs to a 10-bit mantissa (TF32) and choose algorithms by timing them, and a program
    may allow the same for matrix products, or bfloat16 on a CPU. The earlier settings are restored.
    """
    before = []
    for place, name, value in _settings():
        before.append((place, name, getattr(place, name)))
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, name, value in reversed(before):
            setattr(place, name, value)


def _settings() -> list[tuple[Any, str, Any]]:
    """Return the object, name and value within the block of each setting.

    Each operation's own is set, because torch refuses to read a shared setting once the operations' own differ.
    """
    from torch import backends

    cudnn = backends.cudnn
    settings: list[tuple[Any, str, Any]] = [(cudnn, "benchmark", False), (cudnn, "deterministic", True)]
    if not hasattr(backends.cudnn, "conv"):  # before torch 2.9
        return [*settings, (backends.cuda.matmul, "allow_tf32", False), (backends.cudnn, "allow_tf32", False)]
    operations = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    operations += [
        getattr(backends.mkldnn, name) for name in ("matmul", "conv", "rnn") if hasattr(backends.mkldnn, name)
    ]
    return settings + [(operation, "fp32_precision", FLOAT32) for operation in operations]
