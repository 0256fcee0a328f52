"""Makes models: by the name of an architecture in timm or torchvision, or by a function in a file.

Tested by `tests/evaluation/models/test_models.py`.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.errors import EvaluationError
from evaluation.models import preprocessing, weights
from evaluation.models.preprocessing import Preprocessing
from evaluation.models.published import Published, download_timm, download_torchvision

_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")
"""The published DenseNets name layers as torch before 0.4 allowed; torchvision renames them so, too."""


@dataclass(frozen=True)
class Blueprint:
    """A model before its weights are checked; with them if they are published ones."""

    module: Any
    preprocessing: Preprocessing
    description: dict[str, str]
    blocks: Sequence[str] | None = None
    published: Published | None = None


def make_blueprint(spec: str, classes: int, *, pretrained: bool) -> Blueprint:
    """Make a model by its name, or by a function in a file.

    Args:
        spec: as for `models.open_model`.
        classes: number of logits; a file's function without `num_classes` may make others, and so may `pretrained`.
        pretrained: download and load published weights.

    Raises:
        EvaluationError: there is no such model, or it has no published weights that fit.
    """
    kind, colon, name = spec.partition(":")
    if kind == "timm":
        return _timm(name, classes, pretrained=pretrained)
    if kind == "torchvision":
        return _torchvision(name, classes, pretrained=pretrained)
    file, colon, function = spec.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise EvaluationError(f"{spec} does not name a model; write timm:NAME, torchvision:NAME or FILE.py:FUNCTION.")
    if pretrained:
        raise EvaluationError(f"--pretrained is for models of timm and torchvision, not for {spec}. Give --weights.")
    return _from_file(Path(file), function, classes)


def _timm(name: str, classes: int, *, pretrained: bool) -> Blueprint:
    import timm

    known = {*timm.list_models(), *timm.list_pretrained()}
    if name not in known:
        raise _unknown_model("timm", name, known, "timm.list_models()")
    if not pretrained:
        module = timm.create_model(name, pretrained=False, num_classes=classes)
        return Blueprint(module, preprocessing.of_timm(module), {"model": f"timm:{name}"})
    config = timm.get_pretrained_cfg(name)
    if config is None or not config.hf_hub_id or not config.num_classes or config.custom_load:
        raise EvaluationError(f"timm publishes no weights of {name} with a classifier on the Hub. Give --weights.")
    published = download_timm(config.hf_hub_id, config.hf_hub_filename)
    found = weights.read_weights(published.path)
    try:  # timm renames tensors of some checkpoints
        module = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"state_dict": found})
    except (RuntimeError, KeyError) as error:
        raise EvaluationError(
            f"{published.path} does not have the tensors of {name}. Install the timm that it was published for."
        ) from error
    full = name if "." in name or not config.tag else f"{name}.{config.tag}"
    return Blueprint(module, preprocessing.of_timm(module), {"model": f"timm:{full}"}, published=published)


def _torchvision(name: str, classes: int, *, pretrained: bool) -> Blueprint:
    from torchvision import models

    base, _, tag = name.partition(".")
    # Classification models only; those for segmentation, detection, video and quantization are in submodules.
    known = models.list_models(module=models)
    if base not in known:
        raise _unknown_model("torchvision", base, known, "torchvision.models.list_models()")
    entries = models.get_model_weights(base)
    if tag and tag not in entries.__members__:
        raise _unknown_model("torchvision weights", tag, entries.__members__, f"get_model_weights({base!r})")
    entry = entries[tag] if tag else entries.DEFAULT
    chosen, description = preprocessing.of_torchvision(entry), {"model": f"torchvision:{base}"}
    if not pretrained:
        return Blueprint(models.get_model(base, weights=None, num_classes=classes), chosen, description)
    published = download_torchvision(entry)
    found = weights.read_weights(published.path)
    if base.startswith("densenet"):
        found = {_DENSENET.sub(r"\1\2", key): value for key, value in found.items()}
    # Their builders set this with published weights only.
    transformed = {"transform_input": True} if base in ("googlenet", "inception_v3") else {}
    module = models.get_model(base, weights=None, num_classes=len(entry.meta["categories"]), **transformed)
    weights.load_weights(module, found, head="", name=base, path=published.path)
    return Blueprint(module, chosen, description, published=published)


def _from_file(file: Path, function: str, classes: int) -> Blueprint:
    import torch

    if not file.is_file():
        raise EvaluationError(f"There is no file {file} to load {function} from; check the path.")
    found = importlib.util.spec_from_file_location(f"_model_of_{file.stem}", file)
    assert found is not None and found.loader is not None  # the name ends in .py
    code = importlib.util.module_from_spec(found)
    sys.modules[found.name] = code  # dataclasses look their module up here
    found.loader.exec_module(code)
    make = getattr(code, function, None)
    if not callable(make):
        raise EvaluationError(f"{file} has no function {function}; check the name.")
    takes_classes = "num_classes" in inspect.signature(make).parameters
    module = make(num_classes=classes) if takes_classes else make()
    name = f"{file.name}:{function}"
    if not isinstance(module, torch.nn.Module):
        raise EvaluationError(
            f"{name} returns a {type(module).__name__}, not a torch.nn.Module; return the model itself."
        )
    wanted = {key: getattr(module, key, getattr(make, key, None)) for key in ("preprocessing", "feature_blocks")}
    description = {"model": name, "source_sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    declared = preprocessing.declared(wanted["preprocessing"], name)
    return Blueprint(module, declared, description, wanted["feature_blocks"])


def _unknown_model(kind: str, name: str, known: Any, listing: str) -> EvaluationError:
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    hint = f"the closest names are {', '.join(near)}" if near else f"`{listing}` lists all {len(known):,}"
    return EvaluationError(f"{kind} has no model {name!r}; {hint}.")
