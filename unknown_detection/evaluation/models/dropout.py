"""Switches a model's dropout, in layers or function calls: off for features, drawn per image for MC-dropout.

Some networks call `dropout(..., training=True)` in their forward pass, as the unified benchmark's do: their features
would differ from run to run, in eval mode too. `torch` is imported within functions only.

Tested by `tests/evaluation/detectors/test_images.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from unknown_detection.evaluation.errors import EvaluationError


def dropout_off(calls: list[float] | None = None) -> AbstractContextManager[Any]:
    """Turn all dropout off within the block, even calls such as `dropout(..., training=True)`.

    `calls` receives the rate of each call, in order, where it is positive.
    """

    def drop(values: Any, rate: float, by_channel: bool) -> Any:
        if calls is not None and rate > 0:
            calls.append(rate)
        return values

    return _intercepted(drop)


def dropout_drawn(generators: Sequence[Any]) -> AbstractContextManager[Any]:
    """Turn dropout on within the block, with a generator per image; the model stays in eval mode.

    This affects `dropout` and `dropout1d` to `dropout3d`, in layers and as functions, but neither alpha dropout, nor
    stochastic depth, nor that within `scaled_dot_product_attention`. Generators draw on their own device, and the
    CPU's draw other masks than a GPU's.
    """
    import torch

    def drop(values: Any, rate: float, by_channel: bool) -> Any:
        if not rate > 0:
            return values
        if len(values) % len(generators):
            raise EvaluationError(
                f"The model drops values of a tensor of shape {tuple(values.shape)}, whose first axis is not that of "
                f"{len(generators)} images, so masks cannot be drawn per image. Leave mc_dropout and mc_dropout_mi "
                "out."
            )
        # Some transformers divide an image into several consecutive windows.
        dropped_shape = [values.shape[1], *(1 for _ in values.shape[2:])] if by_channel else values.shape[1:]
        shape = (len(values) // len(generators), *dropped_shape)
        uniform = torch.cat([torch.rand(shape, generator=random, device=random.device) for random in generators])
        mask = (uniform >= rate).to(values.device, values.dtype)
        return values * mask / (1 - rate) if rate < 1 else values * 0

    return _intercepted(drop)


def _intercepted(drop: Callable[[Any, float, bool], Any]) -> AbstractContextManager[Any]:
    """Call `drop(values, rate, by_channel)` in place of dropout."""
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    kinds = {
        functional.dropout: False,
        torch.dropout: False,
        functional.dropout1d: True,
        functional.dropout2d: True,
        functional.dropout3d: True,
        torch.feature_dropout: True,
    }

    class Intercepting(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func not in kinds:
                return func(*args, **(kwargs or {}))
            named = dict(zip(("input", "p"), args, strict=False)) | (kwargs or {})
            return drop(named["input"], named.get("p", 0.5), kinds[func])

    mode: AbstractContextManager[Any] = Intercepting()
    return mode
