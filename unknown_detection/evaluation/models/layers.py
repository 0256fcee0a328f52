"""Finds the layers to read features from, the last linear layer and the blocks, and captures their outputs.

`torch` is imported within functions only, because the module must be importable without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from unknown_detection.evaluation.errors import EvaluationError, a_kind

# Names under which models keep their list of stages: torchvision's without layer1 to layer4, and models modelled on
# them.
_STAGE_LISTS = ("features", "trunk_output", "blocks", "layers", "encoder.layers", "transformer.resblocks")

LOGITS_TOLERANCE = 1e-4
"""Tolerance of the logits against penultimate @ W.T + b, relative to the largest logit: float32 rounding."""


@dataclass(frozen=True)
class Layers:
    """Names of a model's layers, as in `named_modules`.

    Attributes:
        head: the layer whose input is the penultimate features; empty if they are the last block's pooled output.
        blocks: the blocks, first to last.
        classes: number of logits.
        linear: whether the logits are the output of `head`, a linear layer: not so for cosine, scaled, averaged and
            distilled heads.
    """

    head: str
    blocks: tuple[str, ...]
    classes: int
    linear: bool = True


@dataclass
class BatchOutputs:
    """Outputs of one forward pass over B images; tensors on the model's device, filled in by hooks.

    `logits` are of shape (B, C), `penultimate` (B, D), and each block's pooled output, by its name, (B, D_b).
    """

    logits: Any
    penultimate: Any
    blocks: dict[str, Any]


def find_layers(module: Any, images: Any, *, declared: Sequence[str] | None, name: str) -> Layers:
    """Find the last linear layer and the blocks of a model, by running it in eval mode on a batch.

    The head is the layer, a linear one or a 1 x 1 convolution on one pixel, whose output equals the logits and its
    input times its weights; the last to run if there are several. Where there is none, it is the last layer to run
    that gives as many values as there are logits. The blocks are the first of these that exists: those named in
    `declared`; layer1 to layer4 and so on; the stages that timm lists; the children of a list of stages; all children
    before the head. In place of a list, which does not run itself, its children are blocks. There may be none.
    """
    import torch

    modules = dict(module.named_modules())
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}

    def keep(key: str) -> Any:
        def hook(_: Any, arguments: tuple[Any, ...], output: Any) -> None:
            # Removed and added again, so that the keys are in the order of execution.
            outputs.pop(key, None)
            if isinstance(output, torch.Tensor):
                inputs[key], outputs[key] = arguments[0] if arguments else None, output

        return hook

    with ExitStack() as hooks, torch.inference_mode():
        for key, layer in modules.items():
            hooks.callback(layer.register_forward_hook(keep(key)).remove)
        logits = module(images)
    if not isinstance(logits, torch.Tensor) or logits.shape[:-1] != images.shape[:1] or logits.is_complex():
        shape = f"{logits.dtype} of shape {tuple(logits.shape)}" if hasattr(logits, "shape") else a_kind(logits)
        raise EvaluationError(
            f"{name} must return its logits as one tensor of numbers of shape (images, classes), here ({len(images)}, "
            f"classes), but returns {shape}. Wrap the model so that it does."
        )
    require_float32(name, logits, *outputs.values())
    as_many = [
        key
        for key, output in outputs.items()
        if output.numel() == logits.numel()
        and any(parameter.ndim > 1 for parameter in modules[key].parameters(recurse=False))
        and not _children(modules, key)
    ]
    heads = [key for key in as_many if _is_head(modules[key], inputs[key], outputs[key], logits)]
    head = next(reversed(heads or as_many), "")
    if missing := [key for key in declared or () if key not in modules]:
        raise EvaluationError(
            f"{name} has no submodules {', '.join(missing)}, which its `feature_blocks` names; `named_modules` lists "
            "the valid names."
        )
    keys = [*declared] if declared is not None else stages(module, head)
    if declared is None:
        keys = [block for key in keys for block in ([key] if key in outputs else _children(modules, key) or [key])]
    blocks = [key for key in keys if key in outputs and outputs[key].ndim in (2, 3, 4)]
    if declared and len(blocks) < len(declared):
        raise EvaluationError(
            f"Only {len(blocks)} of the blocks {', '.join(declared)} of {name} run and return features of "
            "each image as a tensor. Name suitable submodules in the model's attribute `feature_blocks`."
        )
    if not head and not blocks:
        raise EvaluationError(
            f"{name} has no layer with weights that gives features per image. Give a model whose layers are modules."
        )
    return Layers(head, tuple(blocks), logits.shape[1], bool(heads))


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


@contextmanager
def capture_outputs(module: Any, layers: Layers, of: Callable[[Any, Any], Any] = pool) -> Iterator[BatchOutputs]:
    """Capture the penultimate features, and of blocks the pooled outputs or others, of each forward pass within."""
    modules = dict(module.named_modules())
    captured = BatchOutputs(None, None, {})

    def before_head(_: Any, inputs: tuple[Any, ...]) -> None:
        captured.penultimate = inputs[0].flatten(1)

    def after(key: str) -> Any:
        def hook(_: Any, __: Any, output: Any) -> None:
            # Pooled at once, and never a view: a later layer may modify this output in place.
            captured.blocks[key] = of(module, output)
            if not layers.head and key == layers.blocks[-1]:
                captured.penultimate = captured.blocks[key]

        return hook

    with ExitStack() as hooks:
        if layers.head:
            hooks.callback(modules[layers.head].register_forward_pre_hook(before_head).remove)
        for key in layers.blocks:
            hooks.callback(modules[key].register_forward_hook(after(key)).remove)
        yield captured


def require_float32(name: str, *tensors: Any) -> None:
    """Check that a model with float32 weights also computes in float32, which it does not under autocast."""
    for kind in {str(tensor.dtype).removeprefix("torch.") for tensor in tensors} & {"float16", "bfloat16"}:
        raise EvaluationError(
            f"{name} computes in {kind}, which has 3 digits, although its weights are float32. Take the autocast out "
            "of its forward pass, or from around the call."
        )


def _is_head(layer: Any, features: Any, output: Any, logits: Any) -> bool:
    """Whether a layer's output is the logits, and its input times its weights, unless these are no numbers."""
    import torch

    if not isinstance(layer, torch.nn.Linear | torch.nn.Conv2d):
        return False
    if features.flatten(1).shape[1] != layer.weight[0].numel():
        return False
    if not torch.equal(output.reshape(logits.shape).nan_to_num(), logits.nan_to_num()):
        return False
    # Computed again: a subclass may do something else, and a later layer may have changed the output in place.
    with torch.inference_mode():
        again = features.flatten(1) @ layer.weight.flatten(1).T + (0 if layer.bias is None else layer.bias)
        off, largest = float((again - logits).abs().max()), float(logits.abs().max())
    return not off > LOGITS_TOLERANCE * max(largest, 1.0)


def stages(module: Any, head: str = "") -> list[str]:
    """Return the names of a module's blocks that come before its head, as `find_layers` says which they are."""
    modules = dict(module.named_modules())
    numbered = [f"layer{number}" for number in range(1, 10) if f"layer{number}" in modules]
    if numbered:
        return numbered
    listed = [info["module"] for info in getattr(module, "feature_info", None) or [] if isinstance(info, dict)]
    # The stem before the first block does not count.
    listed = [key for key in listed if key in modules and not key.startswith("stem")]
    if listed:
        return listed
    for key in _STAGE_LISTS:
        if key in modules and not head.startswith(f"{key}."):
            return _children(modules, key)
    top = _children(modules, "")
    return top[: next((place for place, key in enumerate(top) if head and f"{head}.".startswith(f"{key}.")), len(top))]


def _children(modules: Mapping[str, Any], parent: str) -> list[str]:
    """Return the names of the children that have parameters."""
    prefix = f"{parent}." if parent else ""
    return [
        prefix + key for key, child in modules[parent].named_children() if next(child.parameters(), None) is not None
    ]


def channels_last(module: Any) -> bool:
    """Whether a model's feature maps have the shape (B, H, W, D), as some of torchvision and timm have."""
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
