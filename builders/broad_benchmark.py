"""BROAD, the benchmark of Guille-Escuret et al. (sections 2 and 4 of their paper): kinds of shift from ImageNet-1k.

ILSVRC2012's validation images are in-distribution. Configs:

- broad-reference: these images in two parts. `test` has the originals of the images that are made, and is the clean
  side of every comparison; `held_out` has the rest, 45,000 images, on which mixtures of scores are fitted.
- broad-novel-classes: three existing sets of classes that ImageNet-1k does not have.

`label` counts ImageNet-1k's classes, the sorted wnids.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from builders import papers
from builders.benchmark import (
    AllClasses,
    AllImages,
    Benchmark,
    ClassesOf,
    Config,
    PaperCount,
    PerClass,
    Rest,
    Split,
)
from builders.executors.processes import without_pandas
from builders.sources.imagenet import IMAGENET
from builders.sources.imagenet_o import IMAGENET_O

LABELS = ClassesOf(IMAGENET)
ALL_KNOWN = AllClasses("the benchmark's in-distribution classes are all 1,000 (section 2)")
ALL_NEW = AllClasses("the set was made of classes that ImageNet-1k does not have (section 2.1)")

REFERENCE = Config(
    name="broad-reference",
    labels=LABELS,
    description="Clean ImageNet validation images: `test` is the clean side of every comparison and has the originals "
    "of images that were shifted, `held_out` is for fitting mixtures of scores.",
    splits=(
        # Neither the paper nor its repository says which images: 5 a class, as many as each of its adversarial sets
        # has, is ours.
        Split(
            name="test",
            role="in_distribution",
            source=IMAGENET,
            partitions=("val",),
            classes=ALL_KNOWN,
            quota=PerClass(5, half=True),
            paper=PaperCount(5_000),
        ),
        Split(
            name="held_out",
            role="in_distribution",
            source=IMAGENET,
            partitions=("val",),
            classes=ALL_KNOWN,
            quota=Rest("broad-reference/test"),
            paper=PaperCount(45_000),
        ),
    ),
)

NOVEL_CLASSES = Config(
    name="broad-novel-classes",
    labels=LABELS,
    description="Images of classes that ImageNet-1k does not have, from three sets in circulation.",
    splits=(
        Split(
            name="imagenet_o",
            role="novel_class",
            source=IMAGENET_O,
            partitions=("images",),
            classes=ALL_NEW,
            quota=AllImages(),
            paper=PaperCount(2_000),
        ),
    ),
)

BENCHMARK = Benchmark(
    name="broad",
    title="BROAD, Benchmarking Resilience Over Anomaly Diversity",
    version="1.0.0",
    seed=0,
    paper=papers.GUILLE_2023,
    citation=papers.GUILLE_2023_BIBTEX,
    configs=(REFERENCE, NOVEL_CLASSES),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    from builders.pipeline.command import run_command

    return run_command(BENCHMARK, argv)


if __name__ == "__main__":
    without_pandas()
    sys.exit(main())
