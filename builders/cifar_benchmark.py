"""The CIFAR-scale unified benchmark of Kim, Koo and Hwang (section 3.1 and table 2 of their paper).

CIFAR-40, CIFAR-60, SVHN, LSUN-FIX, DTD, Gaussian noise, and the external set Tiny ImageNet158-FIX.
"""

from __future__ import annotations

import dataclasses
import functools
import sys

from builders.declare import papers
from builders.declare.benchmark import Benchmark, Variant
from builders.declare.quotas import AllImages, PerClass, Rest, Total
from builders.declare.splits import AllClasses, Classes, Config, Draw, PaperCount, Split
from builders.generate.exact.noise import GAUSSIAN_NOISE
from builders.generate.exact.resize import FIXED_RESIZE, LSUN_FIX_RESIZE
from builders.sources.datasets.cifar100 import CIFAR100
from builders.sources.datasets.dtd import DTD
from builders.sources.datasets.imagenet import IMAGENET
from builders.sources.datasets.lsun import LSUN
from builders.sources.datasets.lsun_fix import LSUN_FIX
from builders.sources.datasets.svhn import SVHN
from builders.sources.made import NOISE
from unknown_detection.commands import run_builder

# Two of the five classes of each superclass are known (CIFAR-40), the other three near (CIFAR-60).
_DRAW = Draw(2, key="cifar/test", of_each_group=True)
KNOWN = Classes("cifar100", "candidate", _DRAW)
NEAR = Classes("cifar100", "candidate", dataclasses.replace(_DRAW, rest=True))
EXTERNAL = Classes("tiny158", "keep")
UNEXAMINED = AllClasses("its classes need no comparison with CIFAR-100's (section 3.1)")
# The paper finds no class in common with CIFAR-100's. The owners publish no labels of the test set.
_SCENE_CLASSES = AllClasses(
    "section 3.1 takes no class out, though `bridge` is a class of both; which images are bridges is not published"
)

_known = functools.partial(Split, role="in_distribution", source=CIFAR100, classes=KNOWN)
_external = functools.partial(
    Split, role="external", source=IMAGENET, partitions=("train",), classes=EXTERNAL, generator=FIXED_RESIZE
)
_far = functools.partial(Split, role="far_ood", classes=UNEXAMINED, quota=Total(4_000), paper=PaperCount(4_000))
_all_images = functools.partial(_far, partitions=("images",), quota=AllImages())

# "Following a procedure in Tack et al." (section 3.1): their published one, of LSUN's test set or as they made it.
SCENES = _far(
    "far_ood_lsun_fix",
    source=LSUN,
    partitions=("test",),
    classes=_SCENE_CLASSES,
    published="test/lsun-fix",
    generator=LSUN_FIX_RESIZE,
)
_SCENES_KEY = f"cifar/{SCENES.name}"
PUBLISHED_LSUN_FIX = Variant(
    name="published-lsun-fix",
    help="Folder of the images that the authors of LSUN-FIX published (correct_resize_0.png and so on): take "
    "far_ood_lsun_fix from them as they are. Chosen by itself where --lsun gives that folder.",
    splits={_SCENES_KEY: dataclasses.replace(SCENES, source=LSUN_FIX, partitions=("images",), generator=None)},
    source=LSUN_FIX,
    instead_of=LSUN,
)

BENCHMARK = Benchmark(
    name="cifar",
    title="Unified unknown detection benchmark, CIFAR scale",
    version="3.0.0",
    seed=0,
    paper=papers.KIM_2023,
    citation=papers.KIM_2023_BIBTEX,
    configs=(
        Config(
            name="cifar",
            labels=KNOWN,
            description="Splits for evaluation and tuning: in-distribution validation and test, near and far "
            "unknowns, and external images to choose hyperparameters on. Every image is 32 x 32.",
            duplicates_of="cifar-train/train",
            overlaps="cifar",
            splits=(
                _known(
                    name="validation",
                    partitions=("train",),
                    quota=PerClass(50, half=True),
                    paper=PaperCount(2_000),
                    published="valid/cifar40",
                ),
                _known(
                    name="test",
                    partitions=("test",),
                    quota=AllImages(),
                    paper=PaperCount(4_000),
                    published="test/cifar40",
                ),
                Split(
                    name="near_ood",
                    role="near_ood",
                    source=CIFAR100,
                    partitions=("test",),
                    classes=NEAR,
                    quota=AllImages(),
                    paper=PaperCount(
                        6_000,
                        why="the authors' repository says 4,000; their table says 6,000, which is 60 classes of 100",
                    ),
                    published="test/cifar60",
                ),
                _far("far_ood_svhn", source=SVHN, partitions=("test",), published="test/svhn"),
                SCENES,
                _all_images(
                    "far_ood_dtd",
                    source=DTD,
                    paper=PaperCount(5_640),
                    published="test/describable-textures",
                    generator=FIXED_RESIZE,
                ),
                _all_images(
                    "far_ood_gaussian",
                    source=NOISE,
                    paper=PaperCount(10_000),
                    generator=GAUSSIAN_NOISE,
                ),
                _external(
                    name="external_validation",
                    quota=Total(2_000, half=True),
                    paper=PaperCount(2_000),
                    published="valid/new-tinyimagenet158",
                ),
            ),
        ),
        Config(
            name="cifar-train",
            labels=KNOWN,
            description="In-distribution training images (CIFAR-40), kept apart so that evaluating never downloads "
            "them.",
            splits=(
                _known(
                    name="train",
                    partitions=("train",),
                    quota=Rest("cifar/validation"),
                    paper=PaperCount(18_000),
                    published="train/cifar40",
                ),
            ),
        ),
        Config(
            name="cifar-external",
            labels=KNOWN,
            description="External training images (Tiny ImageNet158-FIX) for methods that train on unknowns.",
            overlaps="cifar",
            splits=(
                _external(
                    name="train",
                    quota=PerClass(500, parent="cifar/external_validation"),
                    paper=PaperCount(79_000),
                    published="train/new-tinyimagenet158",
                ),
            ),
        ),
    ),
    variants=(PUBLISHED_LSUN_FIX,),
)

main = functools.partial(run_builder, BENCHMARK)
"""Runs the command line; returns its exit code."""

if __name__ == "__main__":
    sys.exit(main())
