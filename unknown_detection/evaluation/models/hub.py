"""Opens image classifiers of transformers, whose weights lie on the Hub: at a commit, and from safetensors alone.

Tested by `tests/evaluation/models/test_hub.py`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from builders.release.digests import file_sha256
from unknown_detection.evaluation.errors import EvaluationError, first_line
from unknown_detection.evaluation.models.preprocessing import Preprocessing


def require(package: str, module: str, name: str) -> None:
    """Check that an optional package, which no extra of ours installs, is there to open a model."""
    if importlib.util.find_spec(module) is None:
        raise EvaluationError(
            f"{package} is not installed, but needed to open {name}. Install it with pip install {package}."
        )


def download(repository: str, weights: str, *beside: str) -> tuple[Path, dict[str, str]]:
    """Download weights and files beside them from the Hub, and return their folder and where the weights are from.

    All are of one commit: of that which `ORG/NAME@REVISION` names, or the newest.
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
        paths = [Path(hf_hub_download(name, file, revision=info.sha)) for file in (weights, *beside)]
    except (httpx.HTTPError, OSError) as error:  # those of the Hub's client are both
        raise EvaluationError(f"Cannot download {weights} of {address}: {first_line(error)}. Try again.") from error
    source = {"address": address, "revision": str(info.sha), "file": weights, "sha256": file_sha256(paths[0])}
    return paths[0].parent, source


def open_classifier(repository: str) -> tuple[Any, Preprocessing, dict[str, str], tuple[str, ...]]:
    """Open a classifier of transformers; returns a module of its logits, and preprocessing, source and labels."""
    require("transformers", "transformers", f"transformers:{repository}")
    import transformers

    folder, source = download(repository, "model.safetensors", "config.json", "preprocessor_config.json")
    how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        model, found = transformers.AutoModelForImageClassification.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, **how
        )
        processor = transformers.AutoImageProcessor.from_pretrained(folder, **how)
    except (OSError, RuntimeError, ValueError) as error:
        raise EvaluationError(f"transformers cannot open {repository}: {first_line(error)}. Name another.") from error
    if lacking := sorted(found["missing_keys"]):
        raise EvaluationError(
            f"The weights of {repository} lack tensors of {type(model).__name__}, such as {lacking[0]}. "
            "Name a model that was trained to classify images."
        )
    labels = tuple(str(model.config.id2label[number]) for number in range(model.config.num_labels))
    return _logits_of(model), _preprocessing(processor), source, labels


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
