"""Finds the layers to read features from, the last linear layer and the blocks, and captures their outputs.

`torch` is imported within functions only, because the module must be importable without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluationError

# Names under which models keep their list of stages: torchvision's without layer1 to layer4, and models modelled on
# them.
_STAGE_LISTS = ("features", "trunk_output", "blocks", "layers", "encoder.layers")

LOGITS_TOLERANCE = 1e-4
"""Tolerance of the logits against penultimate @ W.T + b, relative to the largest logit: float32 rounding."""


@dataclass(frozen=True)
class Layers:
    """Names of a model's layers, as in `named_modules`.

    Attributes:
        head: the last linear layer.
        blocks: the blocks, first to last.
        classes: number of logits.
        skipped: submodules that look like blocks, but do not run or give no features per image.
    """

    head: str
    blocks: tuple[str, ...]
    classes: int
    skipped: tuple[str, ...] = ()


@dataclass
class BatchOutputs:
    """Outputs of one forward pass over B images; tensors on the model's device, filled in by hooks.

    Attributes:
        logits: shape (B, C).
        penultimate: shape (B, D).
        blocks: pooled output of each block by its name, shape (B, D_b).
    """

    logits: Any
    penultimate: Any
    blocks: dict[str, Any]


def find_layers(module: Any, images: Any, *, declared: Sequence[str] | None, name: str) -> Layers:
    """Find the last linear layer and the blocks of a model.

    The head is the layer, a linear one or a 1 x 1 convolution on one pixel, whose output equals the logits; the last
    to run if there are several. The blocks are the first of these that exists: those named in `declared`; layer1 to
    layer4 and so on; the stages that timm lists; the children of a list of stages; all children before the head. In
    place of a list, which does not run itself, its children are blocks.

    Args:
        module: a `torch.nn.Module` in eval mode.
        images: a batch to run it on; its content is irrelevant.
        declared: names of submodules, or None.
        name: the model's name, for messages.

    Raises:
        EvaluationError: the model returns no logits, these are not the output of a linear layer, or the blocks do not
            exist.
    """
    import torch

    modules = dict(module.named_modules())
    candidates = {key: layer for key, layer in modules.items() if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d)}
    outputs: dict[str, Any] = {}
    with ExitStack() as hooks, torch.inference_mode():
        for key, layer in modules.items():
            hooks.enter_context(_hooked(layer.register_forward_hook(_keep(outputs, key))))
        logits = module(images)
        if not isinstance(logits, torch.Tensor) or logits.ndim != 2:
            raise EvaluationError(
                f"{name} must return its logits as one tensor of shape (images, classes), but returns "
                f"{_shape(logits)}. Wrap the model so that it does."
            )
    heads = [
        key
        for key, found in outputs.items()
        if key in candidates and found.numel() == logits.numel() and torch.equal(found.reshape(logits.shape), logits)
    ]
    if not heads:
        raise EvaluationError(
            f"No linear layer of {name} outputs its logits, but detectors read that layer. Use a model that ends in a "
            "linear layer."
        )
    wanted = list(_blocks(module, modules, heads[-1], declared, name))
    if declared is None:
        wanted = [one for key in wanted for one in ([key] if key in outputs else _children(modules, key) or [key])]
    blocks = [key for key in wanted if _can_pool(outputs.get(key))]
    if not blocks or (declared and len(blocks) < len(declared)):
        raise EvaluationError(
            f"Only {len(blocks)} blocks of {name} run once and return a tensor of features per image. Name suitable "
            "submodules in the model's attribute `feature_blocks`."
        )
    skipped = tuple(key for key in wanted if key not in blocks)
    return Layers(heads[-1], tuple(blocks), logits.shape[1], skipped)


@contextmanager
def capture_outputs(module: Any, layers: Layers) -> Iterator[BatchOutputs]:
    """Capture the penultimate features and the pooled block outputs of each forward pass within the block."""
    modules = dict(module.named_modules())
    captured = BatchOutputs(None, None, {})

    def before_head(_: Any, inputs: tuple[Any, ...]) -> None:
        captured.penultimate = inputs[0].flatten(1)

    def after(key: str) -> Any:
        def hook(_: Any, __: Any, output: Any) -> None:
            # Pooled at once, and never a view: a later layer may modify this output in place.
            captured.blocks[key] = pool(module, output)

        return hook

    with ExitStack() as hooks:
        hooks.enter_context(_hooked(modules[layers.head].register_forward_pre_hook(before_head)))
        for key in layers.blocks:
            hooks.enter_context(_hooked(modules[key].register_forward_hook(after(key))))
        yield captured


def pool(module: Any, output: Any) -> Any:
    """Pool a block's output to one vector per image.

    Feature maps (B, D, H, W), or (B, H, W, D) for channels-last models, are averaged over their pixels. Of tokens (B,
    T, D), the class token is taken if the model has one, as in BROAD (section 3), else their mean. Vectors stay as
    they are.
    """
    if output.ndim == 4:
        return output.mean(dim=(1, 2) if channels_last(module) else (2, 3))
    if output.ndim == 3:
        return output[:, 0].clone() if _has_class_token(module, output.shape[1]) else output.mean(dim=1)
    return output.clone()


def check_head(captured: BatchOutputs, weight: Any, bias: Any, name: str) -> None:
    """Check on a batch that the logits are penultimate @ weight.T + bias.

    Raises:
        EvaluationError: they differ by more than `LOGITS_TOLERANCE`.
    """
    computed = captured.penultimate @ weight.T + bias
    largest = float(captured.logits.abs().max())
    off = float((computed - captured.logits).abs().max())
    if not off <= LOGITS_TOLERANCE * max(largest, 1.0):
        raise EvaluationError(
            f"The logits of {name} differ by {off:.3g} (largest logit: {largest:.3g}) from its penultimate features "
            "times the weights of its last linear layer. Use a model that ends in that layer."
        )


def _blocks(
    module: Any, modules: Mapping[str, Any], head: str, declared: Sequence[str] | None, name: str
) -> Sequence[str]:
    if declared is not None:
        missing = [key for key in declared if key not in modules]
        if missing:
            raise EvaluationError(
                f"{name} has no submodules {', '.join(missing)}, which its `feature_blocks` names; `named_modules` "
                "lists the valid names."
            )
        return declared
    numbered = [f"layer{number}" for number in range(1, 10) if f"layer{number}" in modules]
    if numbered:
        return numbered
    told = [info["module"] for info in getattr(module, "feature_info", None) or [] if isinstance(info, dict)]
    # The stem before the first block does not count.
    told = [key for key in told if key in modules and not key.startswith("stem")]
    if told:
        return told
    for key in _STAGE_LISTS:
        if key in modules and not head.startswith(f"{key}."):
            return _children(modules, key)
    top = _children(modules, "")
    return top[: next((place for place, key in enumerate(top) if f"{head}.".startswith(f"{key}.")), len(top))]


def _children(modules: Mapping[str, Any], parent: str) -> list[str]:
    """Return the names of the children that have parameters."""
    prefix = f"{parent}." if parent else ""
    return [
        prefix + key for key, child in modules[parent].named_children() if next(child.parameters(), None) is not None
    ]


def _keep(outputs: dict[str, Any], key: str) -> Any:
    def hook(_: Any, __: Any, output: Any) -> None:
        import torch

        # Removed and added again, so that the keys are in the order of execution.
        outputs.pop(key, None)
        if isinstance(output, torch.Tensor):
            outputs[key] = output

    return hook


def _can_pool(output: Any) -> bool:
    return output is not None and output.ndim in (2, 3, 4)


def channels_last(module: Any) -> bool:
    """Return whether a model's feature maps have the shape (B, H, W, D), in torchvision and timm."""
    from torchvision.models import SwinTransformer

    return getattr(module, "output_fmt", "NCHW") == "NHWC" or isinstance(module, SwinTransformer)


def _has_class_token(module: Any, tokens: int) -> bool:
    """Return whether the first token is a class token, in transformers of torchvision and timm."""
    if getattr(module, "class_token", None) is not None:
        return True
    if getattr(module, "cls_token", None) is None:
        return False
    # Some models add the class token only after the blocks.
    patches = getattr(getattr(module, "patch_embed", None), "num_patches", None)
    return patches is not None and tokens == patches + int(getattr(module, "num_prefix_tokens", 1))


@contextmanager
def _hooked(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def _shape(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if hasattr(value, "shape") else f"a {type(value).__name__}"
