"""Makes models: of a library, from a module in memory, or by a function in a file, with their preprocessing.

Tested by `tests/evaluation/models/test_models.py` and `tests/evaluation/models/test_weights.py`.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from typing import Any

from unknown_detection.evaluation.errors import EvaluationError, a_kind
from unknown_detection.evaluation.files import load_python
from unknown_detection.evaluation.models.libraries import LIBRARIES, Blueprint, of_library
from unknown_detection.evaluation.models.preprocessing import ImageSize, of_declaration, of_timm
from unknown_detection.evaluation.models.text import TextModel, Texts


def make_blueprint(
    spec: Any,
    classes: int,
    *,
    pretrained: bool,
    override: Any = None,
    images: ImageSize | None = None,
    texts: Texts | None = None,
) -> Blueprint:
    """Make a model of some `classes` as `models.open_model` describes it, and with the same errors.

    A file's function without `num_classes` may make others, and so may `pretrained` and a module. `override` is a
    preprocessing in place of the model's own, as for `of_declaration`, and `texts` what text models are told.

    A module says itself how its images are preprocessed and which its blocks are, or the function that makes it does.
    timm's say it in their configuration; one of torchvision does not say which of its weights it has.
    """
    made, function = _made(spec, classes, pretrained=pretrained)
    module, name = made.module, made.description["model"]
    if isinstance(module, TextModel):
        if texts is None:
            raise EvaluationError(f"{name} needs the names of classes. Extract its features from a release.")
        module = module.classifier(texts)
    own, blocks = (getattr(module, key, getattr(function, key, None)) for key in ("preprocessing", "feature_blocks"))
    declared = own if override is None else override
    if declared is None and getattr(module, "pretrained_cfg", None):
        preprocessing = of_timm(module)
    elif made.preprocessing is not None and override is None:
        preprocessing = made.preprocessing
    else:
        preprocessing = of_declaration(declared, name, images)
    return replace(made, module=module, preprocessing=preprocessing, blocks=blocks)


def _made(spec: Any, classes: int, *, pretrained: bool) -> tuple[Blueprint, Any]:
    """Make what a model's name or object stands for, and return it with the function of a file."""
    if not isinstance(spec, str):
        return _in_memory(spec), None
    kind, _, name = spec.partition(":")
    if of_library(spec):
        made = LIBRARIES[kind](name, classes, pretrained=pretrained)
        code = {"code": _code(made.module.model)} if isinstance(made.module, TextModel) else {}
        return replace(made, description={**made.description, **code}), None
    if ".py:" not in spec:
        names = ", ".join(f"{library}:NAME" for library in LIBRARIES)
        raise EvaluationError(f"{spec} does not name a model; write {names} or FILE.py:FUNCTION.")
    if pretrained:
        raise EvaluationError(f"pretrained= is for models of {', '.join(LIBRARIES)}, not for {spec}. Give weights=.")
    make, function, file, digest = load_python(spec, "model")
    if not callable(make):
        raise EvaluationError(
            f"{function} in {file} is {a_kind(make)}, not a function; name one that returns a model."
        )
    takes_classes = "num_classes" in inspect.signature(make).parameters
    module, name = make(num_classes=classes) if takes_classes else make(), f"{file.name}:{function}"
    return Blueprint(_unwrapped(module, name), {"model": name, "source_sha256": digest}), make


def module_name(module: Any) -> str:
    """Return the name of a module: timm's of its architecture, or that of its class."""
    config = getattr(module, "pretrained_cfg", None)  # of timm's models
    name = getattr(config, "architecture", None) or (config or {}).get("architecture") or type(module).__qualname__
    return str(name)


def _code(module: Any) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _in_memory(module: Any) -> Blueprint:
    """Copy a module, whose user may go on to train it; the classifier of a text model copies its own."""
    if isinstance(module, TextModel):
        return Blueprint(module, {"model": type(module.model).__qualname__, "code": _code(module.model)})
    module = _unwrapped(module)
    return Blueprint(copy.deepcopy(module), {"model": module_name(module), "code": _code(module)})


def _unwrapped(module: Any, function: str = "") -> Any:
    """Return the module inside of torch.compile's and DataParallel's; refuse what is none."""
    import torch

    if isinstance(module, TextModel):
        return module
    if not isinstance(module, torch.nn.Module):
        if function:
            raise EvaluationError(
                f"{function} returns {a_kind(module)}, not a torch.nn.Module; return the model itself."
            )
        raise TypeError(
            f"A model is a torch.nn.Module, or timm:NAME, torchvision:NAME or FILE.py:FUNCTION, not {a_kind(module)}: "
            "extract(model, release, splits)."
        )
    module = getattr(module, "_orig_mod", module)  # what torch.compile wraps
    if isinstance(module, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
        module = module.module
    tensors = () if isinstance(module, torch.jit.ScriptModule) else module.parameters()
    if tensors == () or any(torch.nn.parameter.is_lazy(tensor) or tensor.is_meta for tensor in tensors):
        raise EvaluationError(
            f"{function or type(module).__qualname__} is TorchScript, or has parameters without values, of lazy "
            "layers or on the device meta. Give the module that it was made of, with its weights."
        )
    return module
