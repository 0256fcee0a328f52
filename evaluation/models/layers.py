"""Where a model's features come out: its last linear layer and its blocks, found by running it once.

`torch` is imported by whoever calls, since nothing can be called without a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluationError

# Lists of stages in the models of torchvision that have no layer1 to layer4, and in much that is written after them.
_STAGE_LISTS = ("features", "trunk_output", "blocks", "layers", "encoder.layers")

AGREES = 1e-4
"""How far logits may be from penultimate @ W.T + b, relative to the largest: float32, summed in another order."""


@dataclass(frozen=True)
class Layers:
    """Places in a model, by the names that `named_modules` gives them.

    Attributes:
        head: the last linear layer.
        blocks: the blocks, first to last.
        classes: how many logits there are.
    """

    head: str
    blocks: tuple[str, ...]
    classes: int


@dataclass
class Seen:
    """What one batch of B images left; tensors on the model's device, which hooks fill in.

    Attributes:
        logits: shape (B, C).
        penultimate: shape (B, D).
        blocks: a pooled output of each block, shape (B, D_b).
    """

    logits: Any
    penultimate: Any
    blocks: dict[str, Any]


def find_layers(module: Any, images: Any, *, declared: Sequence[str] | None, name: str) -> Layers:
    """Find the last linear layer and the blocks of a model.

    The head is the last layer to run whose output is the logits: a linear layer, or a 1 x 1 convolution of one pixel.
    The blocks are those that `declared` names; else layer1 to layer4 and so on, where a model has them; else the
    stages that timm lists; else the children of what looks like the list of stages; else all children before the
    head.

    Args:
        module: a `torch.nn.Module` in eval mode.
        images: a batch to run it on; what it shows does not matter.
        declared: names of submodules, or None.
        name: what to call the model in messages.

    Raises:
        EvaluationError: the model gives no logits, they do not come from a linear layer, or there are no such blocks.
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
                f"expected logits of {name} as one tensor of images x classes, found {_shape(logits)}; wrap the model "
                "so that it returns those."
            )
    heads = [
        key
        for key, found in outputs.items()
        if key in candidates and found.numel() == logits.numel() and torch.equal(found.reshape(logits.shape), logits)
    ]
    if not heads:
        raise EvaluationError(
            f"expected the logits of {name} to be the output of a linear layer, found none that gives them; detectors "
            "read that layer, so take a model that ends in one."
        )
    blocks = [key for key in _blocks(module, modules, heads[-1], declared, name) if _can_pool(outputs.get(key))]
    if not blocks or (declared and len(blocks) < len(declared)):
        raise EvaluationError(
            f"expected blocks of {name} that run once and give a tensor for each image, found {len(blocks)} of them; "
            "name submodules in the attribute `feature_blocks` of the model."
        )
    return Layers(heads[-1], tuple(blocks), logits.shape[1])


@contextmanager
def watching(module: Any, layers: Layers) -> Iterator[Seen]:
    """Within the block, each run of a model leaves its penultimate features and its pooled blocks in the `Seen`."""
    modules = dict(module.named_modules())
    seen = Seen(None, None, {})

    def before_head(_: Any, inputs: tuple[Any, ...]) -> None:
        seen.penultimate = inputs[0].flatten(1)

    def after(key: str) -> Any:
        def hook(_: Any, __: Any, output: Any) -> None:
            # At once, and never a view: a later layer may work in place on what this one gave.
            seen.blocks[key] = pool(module, output)

        return hook

    with ExitStack() as hooks:
        hooks.enter_context(_hooked(modules[layers.head].register_forward_pre_hook(before_head)))
        for key in layers.blocks:
            hooks.enter_context(_hooked(modules[key].register_forward_hook(after(key))))
        yield seen


def pool(module: Any, output: Any) -> Any:
    """One vector for each image from a block's output.

    Maps (B, D, H, W), or (B, H, W, D) where the model keeps channels last, are averaged over their pixels. Of tokens
    (B, T, D) the class token is taken where the model has one, as in BROAD (section 3), else their mean. Vectors stay.
    """
    if output.ndim == 4:
        return output.mean(dim=(1, 2) if _channels_last(module) else (2, 3))
    if output.ndim == 3:
        return output[:, 0].clone() if _has_class_token(module, output.shape[1]) else output.mean(dim=1)
    return output.clone()


def check_head(seen: Seen, weight: Any, bias: Any, name: str) -> None:
    """Refuse a model whose logits are not penultimate @ weight.T + bias, on every batch that is kept.

    Raises:
        EvaluationError: they differ by more than `AGREES` allows.
    """
    computed = seen.penultimate @ weight.T + bias
    largest = float(seen.logits.abs().max())
    off = float((computed - seen.logits).abs().max())
    if not off <= AGREES * max(largest, 1.0):
        raise EvaluationError(
            f"expected the logits of {name} to be its penultimate features times the weights of its last layer, found "
            f"a difference of {off:.3g} beside a largest logit of {largest:.3g}; take a model that ends in that layer."
        )


def _blocks(
    module: Any, modules: Mapping[str, Any], head: str, declared: Sequence[str] | None, name: str
) -> Sequence[str]:
    if declared is not None:
        missing = [key for key in declared if key not in modules]
        if missing:
            raise EvaluationError(
                f"expected submodules of {name} in its `feature_blocks`, found no {', '.join(missing)}; "
                "`named_modules` gives the names."
            )
        return declared
    numbered = [f"layer{number}" for number in range(1, 10) if f"layer{number}" in modules]
    if numbered:
        return numbered
    told = [info["module"] for info in getattr(module, "feature_info", None) or [] if isinstance(info, dict)]
    # What comes before the first block is no block.
    told = [key for key in told if key in modules and not key.startswith("stem")]
    if told:
        return told
    for key in _STAGE_LISTS:
        if key in modules and not head.startswith(f"{key}."):
            return _children(modules, key)
    top = _children(modules, "")
    return top[: next((place for place, key in enumerate(top) if f"{head}.".startswith(f"{key}.")), len(top))]


def _children(modules: Mapping[str, Any], parent: str) -> list[str]:
    """Children that compute something that was learnt."""
    prefix = f"{parent}." if parent else ""
    return [
        prefix + key for key, child in modules[parent].named_children() if next(child.parameters(), None) is not None
    ]


def _keep(outputs: dict[str, Any], key: str) -> Any:
    def hook(_: Any, __: Any, output: Any) -> None:
        import torch

        # Taken out and put back, so that the order is that of running.
        outputs.pop(key, None)
        if isinstance(output, torch.Tensor):
            outputs[key] = output

    return hook


def _can_pool(output: Any) -> bool:
    return output is not None and output.ndim in (2, 3, 4)


def _channels_last(module: Any) -> bool:
    from torchvision.models import SwinTransformer

    return getattr(module, "output_fmt", "NCHW") == "NHWC" or isinstance(module, SwinTransformer)


def _has_class_token(module: Any, tokens: int) -> bool:
    """Whether the first of so many tokens stands for the image, in the transformers of torchvision and timm."""
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
