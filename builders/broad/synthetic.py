"""BROAD's synthetic images, made with a person's own copies of the models.

Tested by `tests/builders/generate/synthetic/test_release.py`.
"""

from __future__ import annotations

import functools

from builders.benchmark import AllClasses, AllImages, ClassesOf, Config, Model, PaperCount, Split
from builders.generate.synthetic import biggan, stable_diffusion
from builders.sources.imagenet import IMAGENET
from builders.sources.synthetic import BIGGAN_IMAGES, PARTITION, STABLE_DIFFUSION_IMAGES

# 25 images of each class by each model (section 2.3).
_made = functools.partial(
    Split,
    role="synthetic",
    partitions=(PARTITION,),
    classes=AllClasses("the benchmark's in-distribution classes are all 1,000 (section 2)"),
    quota=AllImages(),
    paper=PaperCount(25_000),
)

BIGGAN = Model(
    name="biggan",
    given="DIR",
    help=f"Folder with biggan-deep-256's {biggan.WEIGHTS} and {biggan.CONFIG}: makes broad-synthetic/biggan.",
    load=biggan.with_weights,
)

STABLE_DIFFUSION = Model(
    name="stable-diffusion",
    given="DIR|ORG/NAME",
    help="Stable Diffusion 2 in the format of diffusers, a folder or a repository on the Hub (ORG/NAME or "
    "ORG/NAME@REVISION): makes broad-synthetic/stable_diffusion.",
    load=stable_diffusion.with_weights,
)

SYNTHETIC = Config(
    name="broad-synthetic",
    labels=ClassesOf(IMAGENET),
    description="Images of ImageNet-1k's classes that generative models made: BigGAN-deep of the class itself, Stable "
    "Diffusion 2 of a prompt with one of the class's names. Two classes are named crane, and two maillot.",
    splits=(
        _made("biggan", source=BIGGAN_IMAGES, generator=biggan.BIGGAN, model=BIGGAN),
        _made(
            "stable_diffusion",
            source=STABLE_DIFFUSION_IMAGES,
            generator=stable_diffusion.STABLE_DIFFUSION,
            model=STABLE_DIFFUSION,
        ),
    ),
)
