"""Opens models with their weights, preprocessing, label map and digest, and runs them.

Tested by `tests/evaluation/models/test_models.py` and `tests/evaluation/models/test_classes.py`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from builders.storage.text_files import read_csv
from unknown_detection.evaluation.errors import (
    EvaluationError,
    EvaluationWarning,
    evaluation_errors,
    first_line,
    one_line,
)
from unknown_detection.evaluation.models.blueprints import make_blueprint
from unknown_detection.evaluation.models.dropout import dropout_drawn, dropout_off
from unknown_detection.evaluation.models.features import Head
from unknown_detection.evaluation.models.layers import (
    BatchOutputs,
    Layers,
    capture_outputs,
    find_layers,
)
from unknown_detection.evaluation.models.libraries import Blueprint, of_library
from unknown_detection.evaluation.models.preprocessing import ImageSize, Preprocessing
from unknown_detection.evaluation.models.text import Texts, has_texts
from unknown_detection.evaluation.models.weights import load_weights, model_digest, read_state_dict
from unknown_detection.evaluation.same import same_logits
from unknown_detection.names import by_name
from unknown_detection.precision import exact_float32

_PROBED = 8
"""Logits of each probe image that a model's record has, at most; ours: other code changes all of them."""


@dataclass
class Model:
    """A model with its weights and preprocessing, ready to run.

    Attributes:
        name: the model's name on the command line; for a file, without its folder.
        module: a `torch.nn.Module` in eval mode on `device`, without gradients of parameters.
        digest: identifies the model, see `model_digest`.
        classes: the module's logits that are the release's classes, in their order; None for all.
        source: where its weights are from: where they were published with their accuracy, or the digest of those that
            came with a module, and nothing for those from a file of the user's; and which of its logits were chosen.
        probed: logits of fixed inputs on the CPU, which tell of code that the digest does not cover.
        dropout: the positive rates of the dropout calls of a forward pass.
    """

    name: str
    module: Any
    preprocessing: Preprocessing
    layers: Layers
    digest: str
    device: str
    classes: Sequence[int] | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    probed: tuple[float, ...] = ()
    dropout: Sequence[float] = ()

    @property
    def _rows(self) -> slice | list[int]:
        return slice(None) if self.classes is None else list(self.classes)

    @property
    def head(self) -> Head | None:
        """The last linear layer, in float32; None if the logits are not its output."""
        if not self.layers.linear:
            return None
        layer = self.module.get_submodule(self.layers.head)
        weight = layer.weight.detach().flatten(1)[self._rows].cpu().numpy()
        bias = np.zeros_like(weight[:, 0]) if layer.bias is None else layer.bias.detach()[self._rows].cpu().numpy()
        return Head(weight, bias, weight[:0] if has_texts(self.module) else None)

    @property
    def probe(self) -> Any:
        """Two grey images, preprocessed, shape (2, 3, H, W), to try a forward pass on."""
        import torch

        return torch.stack([self.preprocessing.probe()] * 2)

    def forward(self, images: Any) -> BatchOutputs:
        """Run the model on preprocessed images of shape (B, 3, H, W), without dropout, and capture its features."""
        import torch

        with (
            exact_float32(),
            dropout_off(),
            torch.inference_mode(),
            capture_outputs(self.module, self.layers) as captured,
        ):
            captured.logits = self.module(images.to(self.device, non_blocking=True))[:, self._rows]
        return captured

    def logits(self, images: Any, generators: Sequence[Any] | None = None) -> Any:
        """Run the model on images (B, 3, H, W) on its device; gradients reach the images if these require them.

        `generators`, one an image, draw dropout masks (`dropout_drawn`); None for no dropout.
        """
        with dropout_off() if generators is None else dropout_drawn(generators):
            return self.module(images)[:, self._rows]


def open_model(
    spec: Any,
    path: Path | None,
    names: Sequence[str],
    *,
    pretrained: bool = False,
    preprocessing: Any = None,
    classes: Path | Mapping[str, Any] | None = None,
    device: str = "auto",
    images: ImageSize | None = None,
    texts: Texts | None = None,
) -> Model:
    """Open a model; the arguments are those of `extract`, where `path` is called `weights`.

    `images` says how large the release's images are, for a preprocessing that leaves them so, and `texts` what a text
    model is told of its classes.
    `names` are the classes of the config. The function of a `FILE.py:FUNCTION` is called with `num_classes` if it has
    this parameter. It, or the module that it returns, has an attribute `preprocessing` (see
    `preprocessing.of_declaration`), and optionally `feature_blocks`: names of submodules, first to last.

    A model that is refused does not exist, has logits of other classes, no weights or such as do not fit, cannot be
    run on what its preprocessing makes, or gives an image other logits at every run or beside other images.
    """
    import torch

    target = pick_device(device)
    given: dict[str, Any] = {"override": preprocessing, "images": images, "texts": texts}
    blueprint = _with_weights(spec, path, len(names), pretrained=pretrained, **given)
    module, name, published = blueprint.module, blueprint.description["model"], blueprint.source is not None
    of_texts = has_texts(module)
    place = next((tensor.device for tensor in module.parameters()), None)
    if str(device) == "auto" and place is not None and place.type != "cpu":
        target = str(place)
    module = _in_float32(module.cpu().eval().requires_grad_(False), name)
    size = blueprint.preprocessing.probe().shape
    # Two images, so that the batch axis cannot be mistaken for a spatial axis of size one.
    probe = torch.linspace(-1, 1, 2 * size.numel()).reshape(2, *size)
    rates: list[float] = []
    try:
        with dropout_off(rates):
            layers = find_layers(module, probe, declared=blueprint.blocks, name=name)
    except (RuntimeError, AssertionError, ValueError) as error:  # of torch, and of timm for another size
        raise EvaluationError(
            f"{name} cannot be run on images of shape {tuple(size)}, which its preprocessing makes: "
            f"{first_line(error)}. Mend it, or give preprocessing= for the input that it takes."
        ) from error
    how: dict[str, Any] = {"published": published, "labels": blueprint.labels}
    chosen = None if of_texts else _logits_of(names, layers.classes, classes, name, **how)
    probed = _probe_logits(module, probe, name, drops=bool(rates))
    description: dict[str, Any] = {**blueprint.description, "preprocessing": blueprint.preprocessing.description}
    digest = model_digest(module, description | ({} if chosen is None else {"classes": chosen}))
    source = dict(blueprint.source or {})
    if path is None and not published:
        source |= {"state_dict": model_digest(module, {}), "held": "by the module"}
    if chosen is not None:
        source |= {"logits": ",".join(map(str, chosen)), "width": str(layers.classes)}
    module = module.to(target)
    return Model(name, module, blueprint.preprocessing, layers, digest, target, chosen, source, probed, rates)


def _with_weights(spec: Any, path: Path | None, classes: int, *, pretrained: bool, **how: Any) -> Blueprint:
    """Make a model of some classes, or of those that its file of weights is for, and load these."""
    if (path is not None and pretrained) or (of_library(spec) and path is None and not pretrained):
        raise EvaluationError("A model needs either its weights or published ones: give weights= or pretrained=True.")
    if not isinstance(spec, str) and (path is not None or pretrained):
        raise EvaluationError("A module has its weights: leave weights= and pretrained= out, or name the model.")
    make: Callable[[int], Blueprint] = partial(make_blueprint, spec, pretrained=pretrained, **how)
    blueprint = make(classes)
    name = blueprint.description["model"]
    if path is not None and has_texts(blueprint.module):
        raise EvaluationError(f"{name} is a text model, which has its weights. Leave weights= out.")
    if path is not None:
        tensors = read_state_dict(path)
        if (width := _classes_in(tensors, blueprint.module, classes)) != classes:
            blueprint = make(width)
        load_weights(blueprint.module, tensors, name=name, path=path)
    elif (
        isinstance(spec, str)
        and not pretrained
        and model_digest(blueprint.module, {}) != model_digest(make(classes).module, {})
    ):
        raise EvaluationError(
            f"{name} returns other weights at every call, so none were loaded. Load them in the function, or give "
            "weights=."
        )
    return blueprint


def _classes_in(tensors: Mapping[str, Any], module: Any, classes: int) -> int:
    """Return the number of classes that a file's weights are for; `classes` where no tensor says another."""
    heads = {name: value for name, value in module.state_dict().items() if value.ndim and len(value) == classes}
    widths = {
        len(tensors[name]) for name, value in heads.items() if name in tensors and tensors[name].ndim == value.ndim
    }
    return max(widths, default=classes)


def _in_float32(module: Any, name: str) -> Any:
    """Return a module with its parameters in float32, in which it is run: a processor may not have its own type."""
    others = {str(tensor.dtype) for tensor in module.parameters() if tensor.is_floating_point()} - {"torch.float32"}
    if not others:
        return module
    message = f"The weights of {name} are {' and '.join(sorted(others))}; it is run in float32."
    warnings.warn(message, EvaluationWarning, stacklevel=4)
    return module.float()


def _logits_of(
    names: Sequence[str], width: int, given: Any, name: str, *, published: bool, labels: Sequence[str]
) -> tuple[int, ...] | None:
    """Return the logits that are the config's classes; None for all, in their order."""
    if given is None and width == len(names) and not published:
        return None
    find, indices = by_name(labels), None if given is None else read_classes(given, names, width)
    if given is None:
        places = tuple(labels.index(label) for label in map(find, names) if label is not None)
        indices = places if len({*places}) == len(names) else of_wnids(names, width)
    if indices is None:
        raise EvaluationError(
            f"{name} has {width:,} logits, but the config has {len(names):,} classes"
            f"{' of other names' * (width == len(names))}. Use a model trained on these classes, or say which logits "
            "they are with classes=."
        )
    return None if indices == tuple(range(width)) else indices


def _probe_logits(module: Any, images: Any, name: str, *, drops: bool) -> tuple[float, ...]:
    """Return a model's first logits of two images; refuse one whose logits do not depend on an image alone.

    It is run twice, with two seeds of torch's random numbers, and with the second image in place of the first. Logits
    of second passes follow, which rates of dropout or a function for patches change, and no weights tell of.
    """
    import torch

    with torch.random.fork_rng(devices=[]), dropout_off(), exact_float32(), torch.inference_mode():
        runs = []
        for seed, rows in enumerate(([0, 1], [0, 1], [1, 1])):
            torch.manual_seed(seed)
            runs.append(module(images[rows]).nan_to_num())  # NaN differs from itself; images tell of it
    if not torch.equal(*runs[:2]):
        raise EvaluationError(
            f"{name} gives other logits for the same images at every run, in eval mode and without dropout. Take the "
            "random numbers out of its forward pass."
        )
    if not same_logits(runs[2][1].tolist(), runs[0][1].tolist()):
        raise EvaluationError(
            f"{name} gives an image other logits beside another image, in eval mode. Take out what it computes over "
            "the batch, such as a BatchNorm without running statistics."
        )
    for values, kind in ((runs[0], "probabilities"), (runs[0].exp(), "logarithms of probabilities")):
        if (values >= 0).all() and ((values.sum(dim=1) - 1).abs() < 1e-4).all():
            subject = "they" if values is runs[0] else "their exponentials"
            warnings.warn(
                f"The outputs of {name} are {kind}: {subject} sum to one in each row. Energy means nothing of them, "
                "and msp something else; return the logits before the softmax.",
                EvaluationWarning,
                stacklevel=4,
            )
    seen = runs[:1]
    with exact_float32(), torch.inference_mode():
        if drops:
            generators = [torch.Generator().manual_seed(number) for number in range(len(images))]
            with contextlib.suppress(EvaluationError), dropout_drawn(generators):  # which mc_dropout is refused with
                seen.append(module(images).nan_to_num())
        if has_texts(module) and module.encode_local is not None:
            with dropout_off():
                of_patches = module.head(module.local(images))
            seen += [of_patches.mean(dim=1), of_patches.amax(dim=1)]
    values = torch.cat([logits[:, :_PROBED].flatten() for logits in seen]).tolist()
    return tuple(float(f"{value:.6g}") for value in values)


@evaluation_errors()
def read_classes(given: Path | Mapping[str, Any], names: Sequence[str], width: int) -> tuple[int, ...]:
    """Read a label map: a CSV file or a dictionary that gives each `class` of the release the `index` of its logit.

    Classes that are not in `names`, the release's, in any case and encoding, are ignored. `width` is the number of
    logits.
    """
    indices: dict[str, int] = {}
    find, where = by_name(names), one_line(given) if isinstance(given, Path) else "classes="
    if isinstance(given, Path):
        lines = read_csv(given, ("class", "index"), "Write it with the columns class,index.")
        listed = [(f"Line {number}", cells["class"], cells["index"]) for number, cells in lines]
    else:
        listed = [(f"The entry {one_line(name)!r}", name, str(index)) for name, index in given.items()]
    for place, label, index in listed:
        name = find(label)
        if name is None:
            continue
        if not (index.isascii() and index.isdigit() and len(index) < 10 and int(index) < width):
            raise EvaluationError(
                f"{place} of {where} has the index {one_line(index, 40)!r}, but the model's logits are 0 to "
                f"{width - 1:,}. Correct it."
            )
        if name in indices or int(index) in indices.values():
            raise EvaluationError(f"{place} of {where} repeats a class or an index ({name}, {index}). Keep one.")
        indices[name] = int(index)
    missing = [name for name in names if name not in indices]
    if missing:
        raise EvaluationError(
            f"{where} lacks {len(missing):,} of the release's {len(names):,} classes, such as {missing[0]}. Add them."
        )
    return tuple(indices[name] for name in names)


def of_wnids(names: Sequence[str], width: int) -> tuple[int, ...] | None:
    """Return the logits of classes that wnids name, in a head for ImageNet-1k or a larger set of timm; else None."""
    from timm.data import ImageNetInfo, infer_imagenet_subset

    subset = infer_imagenet_subset({"num_classes": width})
    if subset is None:
        return None
    places = {wnid: index for index, wnid in enumerate(ImageNetInfo(subset).label_names())}
    return tuple(places[name] for name in names) if set(names) <= places.keys() else None


def pick_device(name: Any) -> str:
    """Resolve `auto` (CUDA if available, else the CPU), or check that this machine has `cpu`, `cuda:1` or `mps`."""
    import torch

    device = str(name)  # of torch.device, too
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
        raise EvaluationError(
            f"torch cannot use {device}: {first_line(error)}. Give auto, cpu, cuda, cuda:1 (the second GPU) or mps "
            "as device=."
        ) from error
    return device


def out_of_memory(error: RuntimeError) -> bool:
    """Whether torch raised this error because a device has too little memory."""
    import torch

    # For Apple's GPUs it has no class.
    return isinstance(error, torch.OutOfMemoryError) or str(error).startswith("MPS backend out of memory")
