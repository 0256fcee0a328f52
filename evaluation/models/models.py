"""Opening a model: its architecture by name or from a file, its weights, its preprocessing, and its digest."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.models import preprocessing, weights
from evaluation.models.features import Head
from evaluation.models.layers import Layers, Seen, check_head, find_layers, watching
from evaluation.models.preprocessing import Preprocessing

DEVICES = ("auto", "cpu", "cuda")
"""Where a model may run; `auto` takes CUDA where there is one."""


@dataclass(frozen=True)
class _Blueprint:
    """A model without its weights."""

    module: Any
    preprocessing: Preprocessing
    blocks: Sequence[str] | None
    about: dict[str, str]


class Model:
    """A model that is ready to look at images.

    Args:
        name: as the command line names it, of a file without its folder.
        module: a `torch.nn.Module` in eval mode, with its weights, on `device`; its parameters need no gradients.
        preprocessing: what its images go through.
        layers: its last layer and blocks.
        digest: see `weights.model_digest`.
        device: "cpu" or "cuda".
    """

    def __init__(
        self, name: str, module: Any, preprocessing: Preprocessing, layers: Layers, digest: str, device: str
    ) -> None:
        self.name = name
        self.module = module
        self.preprocessing = preprocessing
        self.layers = layers
        self.digest = digest
        self.device = device
        head = dict(module.named_modules())[layers.head]
        self._weight = head.weight.detach().flatten(1)
        self._bias = self._weight.new_zeros(layers.classes) if head.bias is None else head.bias.detach()

    @property
    def head(self) -> Head:
        """The last linear layer, as float32."""
        return Head(_array(self._weight), _array(self._bias))

    def see(self, images: Any) -> Seen:
        """Run the model on preprocessed images of shape (B, 3, H, W) and keep its features.

        Raises:
            EvaluationError: the logits do not come from the last layer as they should.
        """
        import torch

        with exact(), torch.inference_mode(), watching(self.module, self.layers) as seen:
            seen.logits = self.module(images.to(self.device))
            check_head(seen, self._weight, self._bias, self.name)
        return seen

    def logits(self, images: Any) -> Any:
        """Run the model; gradients flow to the images where they are asked for."""
        return self.module(images)


def open_model(spec: str, path: Path, classes: int, *, device: str = "auto") -> Model:
    """Open a model.

    Args:
        spec: `timm:NAME`; `torchvision:NAME`, or `torchvision:NAME.WEIGHTS` for the preprocessing of other than the
            default weights; or `FILE.py:FUNCTION`. The function returns a `torch.nn.Module`; it is given
            `num_classes` where it has an argument of this name. The module or the function has an attribute
            `preprocessing` (see `preprocessing.declared`), and if wanted `feature_blocks`: names of submodules, first
            to last.
        path: the weights.
        classes: how many classes the config has.
        device: one of `DEVICES`.

    Raises:
        EvaluationError: there is no such model, its logits are not one for each class, weights do not fit, or there is
            no CUDA where it was asked for.
    """
    import torch

    place = pick_device(device)
    blueprint = _blueprint(spec, classes)
    module = blueprint.module.eval().requires_grad_(False)
    size = blueprint.preprocessing(_grey_image()).shape
    # Two images, so that a batch axis is not taken for one of one pixel.
    probe = torch.linspace(-1, 1, 2 * size.numel()).reshape(2, *size)
    layers = find_layers(module, probe, declared=blueprint.blocks, name=spec)
    if layers.classes != classes:
        raise EvaluationError(
            f"expected one logit of {spec} for each of the {classes:,} classes of the config, found "
            f"{layers.classes:,}; take a model that was trained on these classes."
        )
    weights.load_weights(module, weights.read_weights(path), head=layers.head, name=spec, path=path)
    about = {**blueprint.about, "preprocessing": blueprint.preprocessing.about}
    digest = weights.model_digest(module, about)
    return Model(blueprint.about["model"], module.to(place), blueprint.preprocessing, layers, digest, place)


def pick_device(device: str) -> str:
    """The device that `auto`, `cpu` or `cuda` means on this machine.

    Raises:
        EvaluationError: CUDA is asked for, and there is none.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise EvaluationError("expected a CUDA device, found none that torch can use; give --device cpu or auto.")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


@contextmanager
def exact() -> Iterator[None]:
    """Within the block, convolutions on a GPU are float32 throughout and always take the same algorithm."""
    import torch

    # By default cuDNN rounds inputs to ten bits (TF32), and may choose algorithms by timing them.
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield


def _blueprint(spec: str, classes: int) -> _Blueprint:
    kind, colon, name = spec.partition(":")
    if kind == "timm":
        return _timm(name, classes)
    if kind == "torchvision":
        return _torchvision(name, classes)
    file, colon, function = spec.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise EvaluationError(
            f"expected a model as timm:NAME, torchvision:NAME or FILE.py:FUNCTION, found {spec}; write it so."
        )
    return _from_file(Path(file), function, classes)


def _timm(name: str, classes: int) -> _Blueprint:
    import timm

    known = {*timm.list_models(), *timm.list_pretrained()}
    if name not in known:
        raise _unknown_model("timm", name, known, "timm.list_models()")
    module = timm.create_model(name, pretrained=False, num_classes=classes)
    return _Blueprint(module, preprocessing.of_timm(module), None, {"model": f"timm:{name}"})


def _torchvision(name: str, classes: int) -> _Blueprint:
    from torchvision import models

    base, _, tag = name.partition(".")
    # Of the package itself; those for segmentation, detection, video and quantized ones are in modules below.
    known = models.list_models(module=models)
    if base not in known:
        raise _unknown_model("torchvision", base, known, "torchvision.models.list_models()")
    entries = models.get_model_weights(base)
    if tag and tag not in entries.__members__:
        raise _unknown_model("torchvision weights", tag, entries.__members__, f"get_model_weights({base!r})")
    module = models.get_model(base, weights=None, num_classes=classes)
    chosen = preprocessing.of_torchvision(entries[tag] if tag else entries.DEFAULT)
    return _Blueprint(module, chosen, None, {"model": f"torchvision:{base}"})


def _from_file(file: Path, function: str, classes: int) -> _Blueprint:
    import torch

    if not file.is_file():
        raise EvaluationError(
            f"expected a Python file with {function} at {file}, found nothing there; check the path."
        )
    found = importlib.util.spec_from_file_location(f"_model_of_{file.stem}", file)
    assert found is not None and found.loader is not None  # the name ends in .py
    code = importlib.util.module_from_spec(found)
    sys.modules[found.name] = code  # where dataclasses look their module up
    found.loader.exec_module(code)
    make = getattr(code, function, None)
    if not callable(make):
        raise EvaluationError(f"expected a function {function} in {file}, found none; check the name.")
    takes_classes = "num_classes" in inspect.signature(make).parameters
    module = make(num_classes=classes) if takes_classes else make()
    name = f"{file.name}:{function}"
    if not isinstance(module, torch.nn.Module):
        raise EvaluationError(
            f"expected a torch.nn.Module from {name}, found a {type(module).__name__}; return the model itself."
        )
    wanted = {key: getattr(module, key, getattr(make, key, None)) for key in ("preprocessing", "feature_blocks")}
    about = {"model": name, "source_sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    return _Blueprint(module, preprocessing.declared(wanted["preprocessing"], name), wanted["feature_blocks"], about)


def _unknown_model(kind: str, name: str, known: Any, listing: str) -> EvaluationError:
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    hint = f"the nearest are {', '.join(near)}" if near else f"`{listing}` gives all {len(known):,}"
    return EvaluationError(f"expected the name of a model of {kind}, found {name!r}; {hint}.")


def _grey_image() -> Any:
    from PIL import Image

    return Image.new("RGB", (64, 64), (128, 128, 128))


def _array(tensor: Any) -> Any:
    return np.asarray(tensor.float().cpu().numpy())
