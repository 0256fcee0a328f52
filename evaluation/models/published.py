"""Published weights of timm and torchvision: downloads them by name, and says where they are from.

timm's lie on the Hub and are fetched by its client at a commit; torchvision's lie at the address that its metadata
names, with the start of their SHA-256 in the file's name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.errors import EvaluationError, first_line
from evaluation.files import atomic_path

_FILES = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights in timm's repositories, the preferred one first."""

_HASH = re.compile(r"-([0-9a-f]{8,64})\.")
"""Start of the SHA-256 in torchvision's file names, by `torch.hub`'s rule."""

_AGAIN = "Try again, or give the file with --weights."


@dataclass(frozen=True)
class Published:
    """Published weights on this machine.

    Attributes:
        path: the downloaded file.
        source: `address` (of the model's card, or of the file), `revision` (a commit, on the Hub only), `file` and its
            `sha256`.
        accuracy: top-1 accuracy in percent on ImageNet-1k's validation images, as its metadata states it; None if it
            states none.
    """

    path: Path
    source: Mapping[str, str]
    accuracy: float | None


def download_timm(repository: str, file: str | None) -> Published:
    """Download weights of timm from the Hub, as safetensors where the repository has them.

    Args:
        repository: name on the Hub, such as `timm/resnet50.a1_in1k`.
        file: name of the weights if timm names one, else None.

    Raises:
        EvaluationError: the repository or its weights do not exist, or cannot be downloaded.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    api = HfApi()
    address = f"{api.endpoint}/{repository}"
    try:
        info = api.model_info(repository)
        there = {one.rfilename for one in info.siblings or ()}
        chosen = next((name for name in (file, *_FILES) if name in there), None)
        if chosen is None or info.sha is None:
            raise EvaluationError(f"{address} has none of {', '.join(_FILES)}. Give the weights with --weights.")
        path = Path(hf_hub_download(repository, chosen, revision=info.sha))
    except (httpx.HTTPError, OSError) as error:  # those of the Hub's client are both
        raise EvaluationError(f"Cannot download the weights of {address}: {first_line(error)}. {_AGAIN}") from error
    return Published(path, {"address": address, "revision": info.sha, "file": chosen, "sha256": _sha256(path)}, None)


def download_torchvision(entry: Any) -> Published:
    """Download weights of torchvision to `torch.hub`'s folder, unless they lie there already.

    Args:
        entry: an entry of a `WeightsEnum`.

    Raises:
        EvaluationError: they cannot be downloaded, or differ from the hash in the file's name.
    """
    import torch

    path = Path(torch.hub.get_dir()) / "checkpoints" / entry.url.rpartition("/")[2]
    named = _HASH.search(path.name)
    try:
        if not path.exists():
            with atomic_path(path) as temporary:
                torch.hub.download_url_to_file(entry.url, str(temporary), named and named[1], progress=False)
        digest = _sha256(path)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: another hash
        raise EvaluationError(f"Cannot download {entry.url}: {first_line(error)}. {_AGAIN}") from error
    if named and not digest.startswith(named[1]):
        raise EvaluationError(f"{path} has the SHA-256 {digest[:12]}, unlike its name. Delete it and run again.")
    source = {"address": entry.url, "file": path.name, "sha256": digest}
    accuracy = entry.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    return Published(path, source, accuracy)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
