"""Opens models of timm, transformers and open_clip, which lie on the Hub, at a commit, and those of torchvision.

Published weights of torchvision lie at the address that its metadata names, with the start of their SHA-256 in the
file's name. Those of transformers and open_clip are read from safetensors alone, and no code of a repository is run.

Tested by `tests/evaluation/models/test_published.py` and `tests/evaluation/models/test_hub.py`.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from builders.release.digests import file_sha256
from unknown_detection.evaluation.errors import EvaluationError, first_line, require_known
from unknown_detection.evaluation.models.preprocessing import Preprocessing, of_torchvision
from unknown_detection.evaluation.models.text import TextModel
from unknown_detection.evaluation.models.weights import load_weights, read_state_dict


@dataclass(frozen=True)
class Blueprint:
    """A model before its weights are checked.

    It has published weights already if there is a `source`, which says where they are from: `address` (of the model's
    card, or of the file), `revision` (a commit, on the Hub only), `file`, its `sha256`, and `accuracy`, top-1 in
    percent on ImageNet-1k's validation images, where its metadata says it. `labels` name its logits, where its
    metadata does. Until `make_blueprint` returns it, its module may be a `TextModel`, and its preprocessing missing.
    """

    module: Any
    description: Mapping[str, str]
    source: Mapping[str, str] | None = None
    preprocessing: Any = None
    labels: Sequence[str] = ()
    blocks: Sequence[str] | None = None


_FILES = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights in timm's repositories, the preferred one first."""

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
"""Files of tokenizers, of which a repository has some."""

_ALONE = "Name a repository that has it: weights are read from safetensors alone, and from one file."
_GIVE = "Give the file as weights=."

_HASH = re.compile(r"-([0-9a-f]{8,64})\.")
"""Start of the SHA-256 in torchvision's file names, by `torch.hub`'s rule."""

_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")
"""The published DenseNets name layers as torch before 0.4 allowed; torchvision renames them so, too."""


def _timm(name: str, classes: int, *, pretrained: bool) -> Blueprint:
    import timm

    require_known("model of timm", [name], {*timm.list_models(), *timm.list_pretrained()})
    if not pretrained:
        return Blueprint(timm.create_model(name, pretrained=False, num_classes=classes), {"model": f"timm:{name}"})
    config = timm.get_pretrained_cfg(name)
    if config is None or not config.hf_hub_id or not config.num_classes or config.custom_load:
        raise EvaluationError(f"timm publishes no weights of {name} with a classifier on the Hub. {_GIVE}")
    path, source = _download(config.hf_hub_id, (*filter(None, [config.hf_hub_filename]), *_FILES), advice=_GIVE)
    overlay = {"state_dict": read_state_dict(path)}  # timm renames tensors of some checkpoints
    module = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    full_name = name if "." in name or not config.tag else f"{name}.{config.tag}"
    return Blueprint(module, {"model": f"timm:{full_name}"}, source)


def _torchvision(name: str, classes: int, *, pretrained: bool) -> Blueprint:
    from torchvision import models

    base, _, tag = name.partition(".")
    # Classification models only; those for segmentation, detection, video and quantization are in submodules.
    require_known("model of torchvision", [base], models.list_models(module=models))
    entries = models.get_model_weights(base)
    require_known(f"tag of torchvision's weights of {base}", [tag or "DEFAULT"], entries.__members__)
    entry = entries[tag or "DEFAULT"]
    preprocessing, description = of_torchvision(entry.transforms(), entry), {"model": f"torchvision:{base}"}
    if not pretrained:
        return Blueprint(models.get_model(base, num_classes=classes), description, None, preprocessing)
    path, source = _download_torchvision(entry)
    tensors = read_state_dict(path)
    if base.startswith("densenet"):
        tensors = {_DENSENET.sub(r"\1\2", key): value for key, value in tensors.items()}
    # Their builders set this with published weights only.
    transformed = {"transform_input": True} if base in ("googlenet", "inception_v3") else {}
    module = models.get_model(base, weights=None, num_classes=len(entry.meta["categories"]), **transformed)
    load_weights(module, tensors, name=base, path=path)
    return Blueprint(module, description, source, preprocessing)


def _transformers(repository: str, classes: int, *, pretrained: bool) -> Blueprint:
    spec = _require("transformers", "transformers", repository, pretrained)
    import transformers

    path, source = _download(repository, ["model.safetensors"], ["config.json", "preprocessor_config.json"])
    how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(path.parent, **how)
        of_texts = hasattr(config, "text_config") and hasattr(config, "vision_config")
        kind = transformers.AutoModel if of_texts else transformers.AutoModelForImageClassification
        model, found = kind.from_pretrained(path.parent, use_safetensors=True, output_loading_info=True, **how)
        processor = transformers.AutoImageProcessor.from_pretrained(path.parent, **how)
        tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, **how) if of_texts else None
    except (OSError, RuntimeError, ValueError) as error:
        own = "custom code" in str(error)  # its message names a folder of the cache
        why = "its code lies in its repository, and is not run" if own else first_line(error)
        raise EvaluationError(f"transformers cannot open {repository}: {why}. Name another.") from error
    if lacking := sorted(found["missing_keys"]):
        raise EvaluationError(
            f"The weights of {repository} lack tensors of {type(model).__name__}, such as {lacking[0]}. Name a model "
            "that was trained to classify images."
        )
    preprocessing = _of_processor(processor)
    if of_texts:
        return Blueprint(TextModel(model, tokenizer, preprocessing.transform), {"model": spec}, source)
    labels = tuple(str(model.config.id2label[number]) for number in range(model.config.num_labels))
    described = {"model": spec, "code": type(model).__name__}
    return Blueprint(_logits_of(model), described, source, preprocessing, labels)


def _open_clip(repository: str, classes: int, *, pretrained: bool) -> Blueprint:
    spec = _require("open_clip_torch", "open_clip", repository, pretrained)
    import open_clip

    path, source = _download(repository, ["open_clip_model.safetensors"], ["open_clip_config.json"])
    try:
        config = json.loads((path.parent / "open_clip_config.json").read_text(encoding="utf-8"))
        if "hf_model_name" in config["model_cfg"]["text_cfg"]:
            raise EvaluationError(
                f"The texts of {repository} are embedded by a model of another repository, at no commit. Name another."
            )
        name = f"local-dir:{path.parent}"
        model, _, preprocessing = open_clip.create_model_and_transforms(name, precision="fp32")
        return Blueprint(TextModel(model, open_clip.get_tokenizer(name), preprocessing), {"model": spec}, source)
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise EvaluationError(f"open_clip cannot open {repository}: {first_line(error)}. Name another.") from error


LIBRARIES: dict[str, Callable[..., Blueprint]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "transformers": _transformers,
    "open_clip": _open_clip,
}
"""Open models by their names in a library: with new weights for a number of classes, or with published ones."""


def of_library(spec: Any) -> bool:
    """Return whether a model is named as one of a library, which publishes weights."""
    return isinstance(spec, str) and spec.partition(":")[0] in LIBRARIES


def _require(package: str, library: str, repository: str, pretrained: bool) -> str:
    """Check that a library is installed, which no extra of ours has; return a model's name without its commit."""
    spec = f"{library}:{repository.partition('@')[0]}"
    if not pretrained:
        raise EvaluationError(f"{spec} has the weights of its repository. Give pretrained=True in place of weights=.")
    if importlib.util.find_spec(library) is None:
        raise EvaluationError(
            f"{package} is not installed, but needed to open {spec}. Install it with pip install {package}."
        )
    return spec


def _download(
    repository: str, weights: Sequence[str], beside: Sequence[str] = (), advice: str = _ALONE
) -> tuple[Path, dict[str, str]]:
    """Download weights, the first file that there is, from the Hub, with files beside them; say where they are from.

    All are of one commit: of that which `ORG/NAME@REVISION` names, or the newest. A tokenizer's come along.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    api = HfApi()
    name, _, revision = repository.partition("@")
    address = f"{api.endpoint}/{name}"
    try:
        info = api.model_info(name, revision=revision or None)
        files = {sibling.rfilename for sibling in info.siblings or ()}
        chosen = [file for file in weights if file in files][:1]
        if lacking := [file for file in beside if file not in files] if chosen else [" and no ".join(weights)]:
            raise EvaluationError(f"{address} has no {lacking[0]}. {advice}")
        wanted = [*chosen, *beside, *(file for file in _TOKENIZER if beside and file in files)]
        path, *_ = [Path(hf_hub_download(name, file, revision=info.sha)) for file in wanted]
    except (httpx.HTTPError, OSError) as error:  # those of the Hub's client are both
        again = "Try again, or give the file as weights=." if advice == _GIVE else "Try again."
        raise EvaluationError(f"Cannot download the weights of {address}: {first_line(error)}. {again}") from error
    return path, {"address": address, "revision": str(info.sha), "file": chosen[0], "sha256": file_sha256(path)}


def _download_torchvision(entry: Any) -> tuple[Path, dict[str, str]]:
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
        raise EvaluationError(
            f"Cannot download {entry.url}: {first_line(error)}. Try again, or give the file as weights=."
        ) from error
    if prefix and not digest.startswith(prefix[1]):
        raise EvaluationError(f"{path} has the SHA-256 {digest[:12]}, unlike its name. Delete it and run again.")
    source = {"address": entry.url, "file": path.name, "sha256": digest}
    accuracy = entry.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    return path, source | ({} if accuracy is None else {"accuracy": f"{accuracy:g}"})


def _logits_of(model: Any) -> Any:
    """Return a module that maps images to a classifier's logits, whose stages and class token are found."""
    import torch

    class Logits(torch.nn.Module):  # type: ignore[misc]
        """A classifier's logits as a tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model
            lists = [name for name, of in self.named_modules() if isinstance(of, torch.nn.ModuleList)]
            stages = [name for name, _ in self.named_modules() if lists and name.rpartition(".")[0] == lists[0]]
            self.feature_info = [{"module": name} for name in stages]
            self.class_token = any(name.endswith("cls_token") for name, _ in model.named_parameters()) or None

        def forward(self, images: Any) -> Any:
            return self.model(pixel_values=images).logits

    return Logits()


def _of_processor(processor: Any) -> Preprocessing:
    """Build the preprocessing from a model's image processor."""

    def transform(image: Any) -> Any:
        return processor(images=image, return_tensors="pt")["pixel_values"][0].float()

    values: Mapping[str, Any] = processor.to_dict()
    description = {"from": "transformers", **json.loads(json.dumps(values, default=str))}
    if values.get("resample") is not None:
        description["interpolation"] = Image.Resampling(values["resample"]).name.lower()
    if values.get("do_normalize") and values.get("do_rescale") and abs(values["rescale_factor"] * 255 - 1) < 1e-6:
        description |= {"mean": [*values["image_mean"]], "std": [*values["image_std"]]}
    return Preprocessing(transform, description, tuple(transform(Image.new("RGB", (64, 48))).shape[1:]))
