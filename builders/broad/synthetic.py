"""BROAD's synthetic images, made with a person's own copies of the models.

Tested by `tests/builders/generate/synthetic/test_release.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from builders.broad.originals import ALL_KNOWN, LABELS
from builders.declare.benchmark import AllImages, Config, DemoModels, FirstClasses, PaperCount, Settings, Split
from builders.generate.flags import DEVICE, Flag
from builders.generate.synthetic import biggan, demo, stable_diffusion
from builders.sources.made import BIGGAN_IMAGES, PARTITION, STABLE_DIFFUSION_IMAGES

_NAME = "broad-synthetic"

# 25 images of each class by each model (section 2.3).
_synthetic = functools.partial(
    Split,
    role="synthetic",
    partitions=(PARTITION,),
    classes=ALL_KNOWN,
    quota=AllImages(),
    paper=PaperCount(25_000),
)
_of_biggan = functools.partial(_synthetic, "biggan", source=BIGGAN_IMAGES)
_of_stable_diffusion = functools.partial(_synthetic, "stable_diffusion", source=STABLE_DIFFUSION_IMAGES)

SYNTHETIC = Config(
    name=_NAME,
    labels=LABELS,
    description="Images of ImageNet-1k's classes that generative models made: BigGAN-deep of the class itself, Stable "
    "Diffusion 2 of a prompt with one of the class's names. Two classes are named crane, and two maillot.",
    splits=(
        _of_biggan(generator=biggan.BIGGAN),
        _of_stable_diffusion(generator=stable_diffusion.STABLE_DIFFUSION),
    ),
)


def _asked_for(values: Mapping[str, Any]) -> dict[str, Split]:
    splits = {}
    if (folder := values["biggan"]) is not None:
        splits["biggan"] = _of_biggan(generator=biggan.with_weights(folder, values["device"]))
    if (model := values["stable-diffusion"]) is not None:
        generator = stable_diffusion.with_weights(model, values["device"])
        splits["stable_diffusion"] = _of_stable_diffusion(generator=generator)
    return splits


GENERATIVE_MODELS = Settings(
    config=_NAME,
    flags=(
        Flag(
            "biggan",
            f"Folder with biggan-deep-256's {biggan.WEIGHTS}: makes broad-synthetic/biggan.",
            metavar="DIR",
        ),
        Flag(
            "stable-diffusion",
            "Stable Diffusion 2 in the format of diffusers, a folder or a repository on the Hub (ORG/NAME or "
            "ORG/NAME@REVISION): makes broad-synthetic/stable_diffusion.",
            metavar="DIR|ORG/NAME",
        ),
        DEVICE,
    ),
    splits=_asked_for,
    demo=DemoModels(("biggan", "stable-diffusion"), demo.MAKES, demo.write_models, FirstClasses(4)),
)
