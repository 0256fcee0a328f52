"""BROAD's synthetic images, made with a person's own copies of the models.

Tested by `tests/builders/generate/synthetic/test_release.py`.
"""

from __future__ import annotations

import functools

from builders.benchmark import AllClasses, AllImages, ClassesOf, Config, Model, PaperCount, Split
from builders.generate.synthetic import biggan
from builders.sources.imagenet import IMAGENET
from builders.sources.synthetic import BIGGAN_IMAGES, PARTITION

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

SYNTHETIC = Config(
    name="broad-synthetic",
    labels=ClassesOf(IMAGENET),
    description="Images of ImageNet-1k's classes that generative models made: BigGAN-deep of the class itself, Stable "
    "Diffusion 2 of a prompt with one of the class's names.",
    splits=(_made("biggan", source=BIGGAN_IMAGES, generator=biggan.BIGGAN, model=BIGGAN),),
)
