"""What the extra `evaluate` installs, for tests: a module that imports from here is skipped where it is missing."""

import pytest

timm, torch, torchvision = (
    pytest.importorskip(name, reason="needs the extra `evaluate`") for name in ("timm", "torch", "torchvision")
)
safetensors = pytest.importorskip("safetensors.torch", reason="needs the extra `evaluate`")
nn = torch.nn

__all__ = ["nn", "safetensors", "timm", "torch", "torchvision"]
