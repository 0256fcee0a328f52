"""Makes models and loads their weights: from a module in memory, an architecture's name, or a function in a file.

Published weights of timm lie on the Hub and are fetched by its client at a commit; torchvision's lie at the address
that its metadata names, with the start of their SHA-256 in the file's name.

Tested by `tests/evaluation/models/test_models.py` and `tests/evaluation/models/test_weights.py`.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builders.generate import torch_files
from builders.release.digests import file_sha256
from unknown_detection.evaluation.errors import EvaluationError, a_kind, evaluation_errors, first_line, require_known
from unknown_detection.evaluation.files import load_python
from unknown_detection.evaluation.models.hub import open_clip_model, open_transformers
from unknown_detection.evaluation.models.preprocessing import (
    ImageSize,
    Preprocessing,
    of_declaration,
    of_timm,
    of_torchvision,
)
from unknown_detection.evaluation.models.text import TextModel, Texts


def read_state_dict(path: Path) -> dict[str, Any]:
    """Read weights as tensors on the CPU, from `.safetensors` or what `torch.save` wrote; no code in it is executed.

    The state dict may be inside a checkpoint under `state_dict`, `model_state_dict` or `model`, and all its names may
    have the prefix `module.` of `DataParallel`.
    """
    if not path.is_file():
        raise EvaluationError(
            f"There is no weights file {path}. Check the path, or take published weights with pretrained=True."
        )
    with evaluation_errors():
        return torch_files.read_state_dict(path)


def load_weights(module: Any, tensors: Mapping[str, Any], *, name: str, path: Path) -> None:
    """Load weights into a module; every name and shape must match."""
    advice = "Nothing was loaded. Give the weights of this very model."
    with evaluation_errors():
        torch_files.require_tensors(path, tensors, module.state_dict(), name, advice)
    module.load_state_dict(tensors, strict=True)


def _extra_state(name: str, value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise EvaluationError(
            f"The state dict has {name}, {a_kind(value)} that is no JSON, so the model cannot be told from others. "
            "Return tensors, text or numbers from `get_extra_state`."
        ) from error


def model_digest(module: Any, description: Mapping[str, Any]) -> str:
    """Compute the SHA-256 that identifies a model: its weights, code and preprocessing.

    It covers the canonical JSON of `description` and a zero byte; then for each tensor of the state dict, sorted by
    name: the name, the dtype and the shape (one line each) and the values in row-major order, as little-endian bytes
    (all machines that torch has wheels for are so). So it is independent of the file's format, the device and library
    versions. Of what is no tensor in the state dict, a module's extra state, it covers the name and the canonical
    JSON.
    """
    import torch

    digest = hashlib.sha256(json.dumps(description, sort_keys=True, separators=(",", ":")).encode() + b"\0")
    for name, tensor in sorted(module.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            digest.update(f"{name}\n{_extra_state(name, tensor)}\n".encode())
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        digest.update(f"{name}\n{dtype}\n{','.join(map(str, tensor.shape))}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")
"""The published DenseNets name layers as torch before 0.4 allowed; torchvision renames them so, too."""


@dataclass(frozen=True)
class Blueprint:
    """A model before its weights are checked.

    It has published weights already, and `source` says where they are from: `address` (of the model's card, or of
    the file), `revision` (a commit, on the Hub only), `file`, its `sha256`, and `accuracy`, top-1 in percent on
    ImageNet-1k's validation images, where its metadata says it. `labels` name its logits, where its metadata does.
    """

    module: Any
    preprocessing: Preprocessing
    blocks: Sequence[str] | None
    description: dict[str, str]
    source: Mapping[str, str] | None = None
    labels: Sequence[str] = ()


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
    """
    if isinstance(spec, TextModel):
        return of_text_model(spec, texts, override, images)
    if not isinstance(spec, str):
        return _in_memory(spec, override, images)
    kind, _, name = spec.partition(":")
    if of_library(spec):
        blueprint = _LIBRARIES[kind](name, classes, pretrained=pretrained, texts=texts)
        if override is None:
            return blueprint
        return replace(blueprint, preprocessing=of_declaration(override, spec, images))
    if ".py:" not in spec:
        names = ", ".join(f"{library}:NAME" for library in _LIBRARIES)
        raise EvaluationError(f"{spec} does not name a model; write {names} or FILE.py:FUNCTION.")
    if pretrained:
        raise EvaluationError(f"pretrained= is for models of {', '.join(_LIBRARIES)}, not for {spec}. Give weights=.")
    return _from_file(spec, classes, override, images, texts)


def of_library(spec: Any) -> bool:
    """Return whether a model is named as one of a library, which publishes weights."""
    return isinstance(spec, str) and spec.partition(":")[0] in _LIBRARIES


def module_name(module: Any) -> str:
    """Return the name of a module: timm's of its architecture, or that of its class."""
    config = getattr(module, "pretrained_cfg", None)  # of timm's models
    name = getattr(config, "architecture", None) or (config or {}).get("architecture") or type(module).__qualname__
    return str(name)


def _in_memory(module: Any, override: Any, images: ImageSize | None) -> Blueprint:
    """Copy a module, whose user may go on to train it."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"A model is a torch.nn.Module, or timm:NAME, torchvision:NAME or FILE.py:FUNCTION, not {a_kind(module)}: "
            "extract(model, release, splits)."
        )
    module = _unwrapped(module)
    kind, name = type(module), module_name(module)
    declared = _declared(module, override, name, images)
    try:
        copied = copy.deepcopy(module)
    except RuntimeError as error:  # of tensors that were computed, as by torch.nn.utils.weight_norm
        raise EvaluationError(
            f"{name} cannot be copied: {first_line(error)}. Give it as FILE.py:FUNCTION, or remove what computes its "
            "weights."
        ) from error
    return Blueprint(copied, *declared, {"model": name, "code": f"{kind.__module__}.{kind.__qualname__}"})


def _declared(
    module: Any, override: Any, name: str, images: ImageSize | None, function: Any = None
) -> tuple[Preprocessing, Any]:
    """Return a module's preprocessing (as given, its own or timm's) and blocks; the function may have them, too.

    A module of torchvision does not say which of its weights it has, and so neither how images are preprocessed.
    """
    own, blocks = (getattr(module, key, getattr(function, key, None)) for key in ("preprocessing", "feature_blocks"))
    declared = own if override is None else override
    of_timms = declared is None and getattr(module, "pretrained_cfg", None)
    return of_timm(module) if of_timms else of_declaration(declared, name, images), blocks


def _unwrapped(module: Any) -> Any:
    """Return the module inside of torch.compile's and DataParallel's; refuse one that cannot be looked into or run."""
    import torch

    module = getattr(module, "_orig_mod", module)  # what torch.compile wraps
    if isinstance(module, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
        module = module.module
    name = type(module).__qualname__
    if isinstance(module, torch.jit.ScriptModule):
        raise EvaluationError(
            f"{name} is TorchScript, whose layers cannot be read. Give the module that it was made of."
        )
    if any(torch.nn.parameter.is_lazy(tensor) or tensor.is_meta for tensor in module.parameters()):
        raise EvaluationError(
            f"{name} has parameters without values, of lazy layers or on the device meta. Run it once on an image, or "
            "load its weights."
        )
    return module


def _timm(name: str, classes: int, *, pretrained: bool, texts: Texts | None) -> Blueprint:
    import timm

    require_known("model of timm", [name], {*timm.list_models(), *timm.list_pretrained()})
    if not pretrained:
        module = timm.create_model(name, pretrained=False, num_classes=classes)
        return Blueprint(module, of_timm(module), None, {"model": f"timm:{name}"})
    config = timm.get_pretrained_cfg(name)
    if config is None or not config.hf_hub_id or not config.num_classes or config.custom_load:
        raise EvaluationError(f"timm publishes no weights of {name} with a classifier on the Hub. Give weights=.")
    path, source = download_timm(config.hf_hub_id, config.hf_hub_filename)
    tensors = read_state_dict(path)
    try:  # timm renames tensors of some checkpoints
        module = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"state_dict": tensors})
    except (RuntimeError, KeyError) as error:
        raise EvaluationError(
            f"{path} does not have the tensors of {name}. Install the timm that it was published for."
        ) from error
    full_name = name if "." in name or not config.tag else f"{name}.{config.tag}"
    return Blueprint(module, of_timm(module), None, {"model": f"timm:{full_name}"}, source=source)


def _torchvision(name: str, classes: int, *, pretrained: bool, texts: Texts | None) -> Blueprint:
    from torchvision import models

    base, _, tag = name.partition(".")
    # Classification models only; those for segmentation, detection, video and quantization are in submodules.
    require_known("model of torchvision", [base], models.list_models(module=models))
    entries = models.get_model_weights(base)
    require_known(f"tag of torchvision's weights of {base}", [tag or "DEFAULT"], entries.__members__)
    entry = entries[tag or "DEFAULT"]
    preprocessing, description = of_torchvision(entry.transforms(), entry), {"model": f"torchvision:{base}"}
    if not pretrained:
        return Blueprint(models.get_model(base, num_classes=classes), preprocessing, None, description)
    path, source = download_torchvision(entry)
    tensors = read_state_dict(path)
    if base.startswith("densenet"):
        tensors = {_DENSENET.sub(r"\1\2", key): value for key, value in tensors.items()}
    # Their builders set this with published weights only.
    transformed = {"transform_input": True} if base in ("googlenet", "inception_v3") else {}
    module = models.get_model(base, weights=None, num_classes=len(entry.meta["categories"]), **transformed)
    load_weights(module, tensors, name=base, path=path)
    return Blueprint(module, preprocessing, None, description, source=source)


def _of_hub(library: str, opened: Callable[[str], Any], name: str, pretrained: bool, texts: Texts | None) -> Blueprint:
    spec = f"{library}:{name.partition('@')[0]}"
    if not pretrained:
        raise EvaluationError(f"{spec} has the weights of its repository. Give pretrained=True in place of weights=.")
    model, source = opened(name)
    if isinstance(model, TextModel):
        made = of_text_model(model, texts, None, None)
        return replace(made, description={**made.description, "model": spec}, source=source)
    description = {"model": spec, "code": type(model.module.model).__name__}
    return Blueprint(model.module, model.preprocessing, None, description, source, model.labels)


def _transformers(name: str, classes: int, *, pretrained: bool, texts: Texts | None) -> Blueprint:
    return _of_hub("transformers", open_transformers, name, pretrained, texts)


def _open_clip(name: str, classes: int, *, pretrained: bool, texts: Texts | None) -> Blueprint:
    return _of_hub("open_clip", open_clip_model, name, pretrained, texts)


_LIBRARIES: dict[str, Callable[..., Blueprint]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "transformers": _transformers,
    "open_clip": _open_clip,
}


def of_text_model(spec: TextModel, texts: Texts | None, override: Any, images: ImageSize | None) -> Blueprint:
    """Make the classifier of a text model; it has its weights."""
    kind = type(spec.model)
    if texts is None:
        raise EvaluationError(f"{kind.__qualname__} needs the names of classes. Extract its features from a release.")
    module = spec.classifier(texts)
    declared = _declared(module, override, kind.__qualname__, images)
    return Blueprint(module, *declared, {"model": kind.__qualname__, "code": f"{kind.__module__}.{kind.__qualname__}"})


def _from_file(spec: str, classes: int, override: Any, images: ImageSize | None, texts: Texts | None) -> Blueprint:
    import torch

    make, function, file, digest = load_python(spec, "model")
    if not callable(make):
        raise EvaluationError(
            f"{function} in {file} is {a_kind(make)}, not a function; name one that returns a model."
        )
    takes_classes = "num_classes" in inspect.signature(make).parameters
    module, name = make(num_classes=classes) if takes_classes else make(), f"{file.name}:{function}"
    description = {"model": name, "source_sha256": digest}
    if isinstance(module, TextModel):
        return replace(of_text_model(module, texts, override, images), description=description)
    if not isinstance(module, torch.nn.Module):
        raise EvaluationError(f"{name} returns {a_kind(module)}, not a torch.nn.Module; return the model itself.")
    module = _unwrapped(module)
    return Blueprint(module, *_declared(module, override, name, images, make), description)


_FILES = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights in timm's repositories, the preferred one first."""

_HASH = re.compile(r"-([0-9a-f]{8,64})\.")
"""Start of the SHA-256 in torchvision's file names, by `torch.hub`'s rule."""

_AGAIN = "Try again, or give the file as weights=."


def download_timm(repository: str, file: str | None) -> tuple[Path, dict[str, str]]:
    """Download timm's weights from the Hub: the named file, else a safetensors file if the repository has one."""
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    api = HfApi()
    address = f"{api.endpoint}/{repository}"
    try:
        info = api.model_info(repository)
        files = {sibling.rfilename for sibling in info.siblings or ()}
        chosen = next((name for name in (file, *_FILES) if name in files), None)
        if chosen is None or info.sha is None:
            raise EvaluationError(f"{address} has none of {', '.join(_FILES)}. Give the file as weights=.")
        path = Path(hf_hub_download(repository, chosen, revision=info.sha))
    except (httpx.HTTPError, OSError) as error:  # those of the Hub's client are both
        raise EvaluationError(f"Cannot download the weights of {address}: {first_line(error)}. {_AGAIN}") from error
    source = {"address": address, "revision": info.sha, "file": chosen, "sha256": file_sha256(path)}
    return path, source


def download_torchvision(entry: Any) -> tuple[Path, dict[str, str]]:
    """Download weights of torchvision to `torch.hub`'s folder, unless they lie there already."""
    import torch

    path = Path(torch.hub.get_dir()) / "checkpoints" / entry.url.rpartition("/")[2]
    prefix = _HASH.search(path.name)
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(entry.url, str(path), prefix and prefix[1], progress=False)
        digest = file_sha256(path)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: another hash
        raise EvaluationError(f"Cannot download {entry.url}: {first_line(error)}. {_AGAIN}") from error
    if prefix and not digest.startswith(prefix[1]):
        raise EvaluationError(f"{path} has the SHA-256 {digest[:12]}, unlike its name. Delete it and run again.")
    source = {"address": entry.url, "file": path.name, "sha256": digest}
    accuracy = entry.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    return path, source | ({} if accuracy is None else {"accuracy": f"{accuracy:g}"})
