"""A release of small images that a small model can tell apart, and that model."""

import hashlib
import io

import numpy as np
from PIL import Image

from tests.hf_scripts.samples import make_release, role_of

LABELS = ("red", "green", "blue", "grey")
CONFIG = "small"
COLOURS = np.array([[200, 60, 60], [60, 200, 60], [60, 60, 200], [128, 128, 128]])


def picture(name):
    """8 x 8 pixels: in-distribution ones are of their class's colour with noise, others noise or stripes."""
    split, _, file = name.partition("/")
    number = int(file.partition(".")[0])
    noise = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    if role_of(split) == "in_distribution":
        values = COLOURS[number % len(LABELS)] + noise.normal(0, 25, (8, 8, 3))
    elif role_of(split) == "near_ood":
        values = COLOURS[[number % 4, (number + 1) % 4]].mean(axis=0) + noise.normal(0, 40, (8, 8, 3))
    else:
        values = noise.uniform(0, 255, (8, 8, 3))
    encoded = io.BytesIO()
    Image.fromarray(values.clip(0, 255).astype(np.uint8)).save(encoded, format="PNG")
    return encoded.getvalue()


SPLITS = {
    f"{CONFIG}/test": range(40),
    f"{CONFIG}/validation": range(100, 160),
    f"{CONFIG}/near_ood": range(24),
    f"{CONFIG}/far_ood_noise": range(24),
    f"{CONFIG}/external_validation": range(200, 240),
    f"{CONFIG}-train/train": range(1000, 1160),
}


def small_release(root, splits=SPLITS, **options):
    """Write the release; `splits` maps `config/split` to the numbers of its rows."""
    return make_release(root, splits, labels=LABELS, picture=picture, **options)


def fitted(make, **kwargs):
    """A model of `small_models` whose last layer is fitted to the training images, by least squares."""
    import torch

    from tests.evaluation.small_models import MEAN, STD, of_seed

    model = of_seed(make, num_classes=len(LABELS), **kwargs)
    numbers = SPLITS[f"{CONFIG}-train/train"]
    pictures = [np.asarray(Image.open(io.BytesIO(picture(f"train/{number}.png")))) for number in numbers]
    values = (np.stack(pictures) / 255 - MEAN) / STD
    images = torch.from_numpy(values.transpose(0, 3, 1, 2)).float()
    with torch.no_grad():
        features = model.layer2(model.layer1(images)).mean(dim=(2, 3)).double()
        features = torch.cat([features, torch.ones(len(features), 1, dtype=torch.float64)], dim=1)
        targets = 12 * torch.eye(len(LABELS), dtype=torch.float64)[[number % len(LABELS) for number in numbers]] - 6
        solved = torch.linalg.lstsq(features, targets).solution.float()
        # The logits fitted so have one sum: they lie in a plane, and no distance among them would be stable.
        solved += torch.randn(solved.shape, generator=torch.Generator().manual_seed(0))
        model.fc.weight.copy_(solved[:-1].T)
        model.fc.bias.copy_(solved[-1])
    return model
