"""The ImageNet-scale unified benchmark of Kim, Koo and Hwang (section 3.2 and table 2 of their paper).

ImageNet-200, Near ImageNet-200, External ImageNet-394, and the far sets Food-32, Caltech-45 and Places-82.

Tested by `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

import functools
import sys

from builders.declare import papers
from builders.declare.benchmark import Benchmark
from builders.declare.quotas import AllImages, PerClass, Rest, Total
from builders.declare.splits import Classes, Config, Draw, PaperCount, Split
from unknown_detection.commands import run_builder

KNOWN = Classes("imagenet", "in_distribution")
EXTERNAL = Classes("imagenet", "external")

_known = functools.partial(Split, role="in_distribution", source="imagenet", classes=KNOWN)
_far = functools.partial(Split, role="far_ood", quota=Total(10_000), paper=PaperCount(10_000))
_external = functools.partial(Split, role="external", source="imagenet", partitions=("train",), classes=EXTERNAL)

BENCHMARK = Benchmark(
    name="imagenet",
    title="Unified unknown detection benchmark, ImageNet scale",
    version="1.1.0",
    seed=0,
    paper=papers.KIM_2023,
    citation=papers.KIM_2023_BIBTEX,
    configs=(
        Config(
            name="imagenet",
            labels=KNOWN,
            description="Splits for evaluation and tuning: in-distribution validation and test, near and far "
            "unknowns, and external images to choose hyperparameters on.",
            overlaps="imagenet",
            splits=(
                _known(
                    name="validation",
                    partitions=("train",),
                    quota=PerClass(50, half=True),
                    paper=PaperCount(10_000),
                    published="valid/imagenet200",
                ),
                _known(
                    name="test",
                    partitions=("val",),
                    quota=AllImages(),
                    paper=PaperCount(10_000),
                    published="test/imagenet200",
                ),
                Split(
                    name="near_ood",
                    role="near_ood",
                    source="imagenet",
                    partitions=("val",),
                    classes=Classes("imagenet", "near_candidate", draw=Draw(200, key="imagenet/near_ood")),
                    quota=AllImages(),
                    paper=PaperCount(10_000),
                    published="test/near-imagenet200",
                ),
                _far(
                    name="far_ood_food32",
                    source="food101",
                    partitions=("images",),
                    classes=Classes("food101", "keep"),
                    published="test/food101",
                ),
                _far(
                    name="far_ood_caltech45",
                    source="caltech256",
                    partitions=("images",),
                    classes=Classes("caltech256", "keep"),
                    quota=AllImages(),
                    paper=PaperCount(
                        4_792,
                        why="the paper's table counts one more for each of the 45 folders, as `ls -l | wc -l` does "
                        "with its line `total`, so these 45 are very probably the authors'",
                    ),
                    published="test/caltech256",
                ),
                _far(
                    name="far_ood_places82",
                    source="places365",
                    partitions=("val", "train"),
                    classes=Classes("places365", "keep"),
                    published="test/places365",
                ),
                _external(
                    name="external_validation",
                    quota=PerClass(50, half=True),
                    paper=PaperCount(19_700),
                    published="valid/external-imagenet394",
                ),
            ),
        ),
        Config(
            name="imagenet-train",
            labels=KNOWN,
            description="In-distribution training images (ImageNet-200), kept apart so that evaluating never "
            "downloads them.",
            splits=(
                _known(
                    name="train",
                    partitions=("train",),
                    quota=Rest("imagenet/validation"),
                    paper=PaperCount(
                        250_000,
                        why="the paper's table counts 1,250 images a class; ILSVRC2012 has up to 1,300, less 50 for "
                        "validation, and 9 of the 200 classes have fewer",
                    ),
                    published="train/imagenet200",
                ),
            ),
        ),
        Config(
            name="imagenet-external",
            labels=KNOWN,
            description="External training images (External ImageNet-394) for methods that train on unknowns.",
            overlaps="imagenet",
            splits=(
                _external(
                    name="train",
                    quota=Rest("imagenet/external_validation"),
                    paper=PaperCount(
                        492_500,
                        why="the paper's table counts 1,250 images a class and the authors' repository says 485,700; "
                        "41 of the 394 classes have fewer than 1,300 images in ILSVRC2012",
                    ),
                    published="train/external-imagenet394",
                ),
            ),
        ),
    ),
)

main = functools.partial(run_builder, BENCHMARK)
"""Runs the command line; returns its exit code."""

if __name__ == "__main__":
    sys.exit(main())
