"""Opens models of transformers and open_clip, which lie on the Hub: at a commit, and from safetensors alone.

Tested by `tests/evaluation/models/test_hub.py`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from builders.release.digests import file_sha256
from unknown_detection.evaluation.errors import EvaluationError, first_line
from unknown_detection.evaluation.models.preprocessing import Preprocessing
from unknown_detection.evaluation.models.text import TextModel

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
"""Files of tokenizers, of which a repository has some."""


def require(package: str, module: str, name: str) -> None:
    """Check that an optional package, which no extra of ours installs, is there to open a model."""
    if importlib.util.find_spec(module) is None:
        raise EvaluationError(
            f"{package} is not installed, but needed to open {name}. Install it with pip install {package}."
        )


def download(
    repository: str, weights: str, *beside: str, perhaps: Sequence[str] = _TOKENIZER
) -> tuple[Path, dict[str, str]]:
    """Download weights and files beside them from the Hub, and return their folder and where the weights are from.

    All are of one commit: of that which `ORG/NAME@REVISION` names, or the newest. Files that there `perhaps` are may
    be missing.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    api = HfApi()
    name, _, revision = repository.partition("@")
    address = f"{api.endpoint}/{name}"
    try:
        info = api.model_info(name, revision=revision or None)
        files = {sibling.rfilename for sibling in info.siblings or ()}
        if lacking := [file for file in (weights, *beside) if file not in files]:
            raise EvaluationError(
                f"{address} has no {lacking[0]}. Name a repository that has it: weights are read from safetensors "
                "alone, and from one file."
            )
        wanted = (weights, *beside, *(file for file in perhaps if file in files))
        paths = [Path(hf_hub_download(name, file, revision=info.sha)) for file in wanted]
    except (httpx.HTTPError, OSError) as error:  # those of the Hub's client are both
        raise EvaluationError(f"Cannot download {weights} of {address}: {first_line(error)}. Try again.") from error
    source = {"address": address, "revision": str(info.sha), "file": weights, "sha256": file_sha256(paths[0])}
    return paths[0].parent, source


def open_transformers(repository: str) -> tuple[Any, dict[str, str]]:
    """Open a model of transformers and say where its weights are from: a `Classifier`, or a `TextModel` of a CLIP."""
    require("transformers", "transformers", f"transformers:{repository}")
    import transformers

    folder, source = download(repository, "model.safetensors", "config.json", "preprocessor_config.json")
    how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **how)
        of_texts = hasattr(config, "text_config") and hasattr(config, "vision_config")
        kind = transformers.AutoModel if of_texts else transformers.AutoModelForImageClassification
        model, found = kind.from_pretrained(folder, use_safetensors=True, output_loading_info=True, **how)
        processor = transformers.AutoImageProcessor.from_pretrained(folder, **how)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **how) if of_texts else None
    except (OSError, RuntimeError, ValueError) as error:
        own = "custom code" in str(error)  # its message names a folder of the cache
        why = "its code lies in its repository, and is not run" if own else first_line(error)
        raise EvaluationError(f"transformers cannot open {repository}: {why}. Name another.") from error
    if lacking := sorted(found["missing_keys"]):
        raise EvaluationError(
            f"The weights of {repository} lack tensors of {type(model).__name__}, such as {lacking[0]}. Name a model "
            "that was trained to classify images."
        )
    preprocessing = _preprocessing(processor)
    if of_texts:
        return TextModel(model, tokenizer, preprocessing.transform), source
    labels = tuple(str(model.config.id2label[number]) for number in range(model.config.num_labels))
    return Classifier(_logits_of(model), preprocessing, labels), source


def open_clip_model(repository: str) -> tuple[TextModel, dict[str, str]]:
    """Open a CLIP of open_clip and say where its weights are from."""
    require("open_clip_torch", "open_clip", f"open_clip:{repository}")
    import open_clip

    folder, source = download(repository, "open_clip_model.safetensors", "open_clip_config.json")
    try:
        config = json.loads((folder / "open_clip_config.json").read_text(encoding="utf-8"))
        if "hf_model_name" in config["model_cfg"]["text_cfg"]:
            raise EvaluationError(
                f"The texts of {repository} are embedded by a model of another repository, at no commit. Name another."
            )
        model, _, preprocessing = open_clip.create_model_and_transforms(f"local-dir:{folder}", precision="fp32")
        tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise EvaluationError(f"open_clip cannot open {repository}: {first_line(error)}. Name another.") from error
    return TextModel(model, tokenizer, preprocessing), source


class Classifier(NamedTuple):
    """A module of logits, its preprocessing, and the labels of the logits."""

    module: Any
    preprocessing: Preprocessing
    labels: tuple[str, ...]


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


def _preprocessing(processor: Any) -> Preprocessing:
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
