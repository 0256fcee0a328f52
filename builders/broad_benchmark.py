"""BROAD, the benchmark of Guille-Escuret et al. (sections 2 and 4 of their paper): kinds of shift from ImageNet-1k.

ILSVRC2012's validation images are in-distribution. Configs:

- broad-reference: these images in two parts. `test` has the originals of the images that are made, and is the clean
  side of every comparison; `held_out` has the rest, 45,000 images, on which mixtures of scores are fitted.
- broad-novel-classes: three existing sets of classes that ImageNet-1k does not have.
- broad-adversarial: the originals of broad-reference, attacked on two models. Needs their weights.
- broad-multi-label: COCO images of several ImageNet classes, and of one alone (`builders.broad_multi_label`).

`label` counts ImageNet-1k's classes, the sorted wnids.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

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
    Settings,
    Split,
    Variant,
)
from builders.broad_multi_label import LAST_OBJECTS, MULTI_LABEL
from builders.executors.processes import without_pandas
from builders.generate.adversarial import flags
from builders.generate.contract import Generator
from builders.sources.imagenet import IMAGENET
from builders.sources.imagenet_o import IMAGENET_O
from builders.sources.inaturalist import INATURALIST
from builders.sources.openimage_o import OPENIMAGE_O

LABELS = ClassesOf(IMAGENET)
ALL_KNOWN = AllClasses("the benchmark's in-distribution classes are all 1,000 (section 2)")
ALL_NEW = AllClasses("the set was made of classes that ImageNet-1k does not have (section 2.1)")

# The originals: the clean side of every comparison, and what is shifted. A split of images that are generated from
# them is declared as `originals(name, role, generator=..., paper=...)` in a config of its own, and has the same images
# in the same order. Neither the paper nor its repository says which 5,000 they are; 5 a class is ours.
originals = functools.partial(
    Split,
    source=IMAGENET,
    partitions=("val",),
    classes=ALL_KNOWN,
    quota=PerClass(5, half=True),
    ranked_as="broad-reference/test",
)

REFERENCE = Config(
    name="broad-reference",
    labels=LABELS,
    description="Clean ImageNet validation images: `test` is the clean side of every comparison and has the originals "
    "of images that were shifted, `held_out` is for fitting mixtures of scores.",
    splits=(
        originals("test", "in_distribution", paper=PaperCount(5_000)),
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

# A set of novel classes, with all its images.
_novel = functools.partial(Split, role="novel_class", classes=ALL_NEW, quota=AllImages())

# The paper names the sets and not their sizes. Its authors started from OpenOOD (January 2023), which has so many
# images of them; of OpenImage-O it keeps 1,763 apart for validation.
OPENIMAGES = _novel("openimage_o", source=OPENIMAGE_O, partitions=("test",), paper=PaperCount(15_869))
NOVEL_CLASSES = Config(
    name="broad-novel-classes",
    labels=LABELS,
    description="Images of classes that ImageNet-1k does not have, from three sets in circulation. NINCO's authors "
    "looked at 400 of each (`examined`) and saw objects of ImageNet-1k (`id_overlap`) on 10 of iNaturalist's, 78 of "
    "ImageNet-O's and 19 of OpenImage-O's, 16 of these in OpenOOD's test list.",
    splits=(
        _novel("inaturalist", source=INATURALIST, partitions=("images",), paper=PaperCount(10_000)),
        _novel("imagenet_o", source=IMAGENET_O, partitions=("images",), paper=PaperCount(2_000)),
        OPENIMAGES,
    ),
)
OPENIMAGE_O_ALL = Variant(
    name="openimage-o-all",
    help="Take all 17,632 images of OpenImage-O instead of the 15,869 of OpenOOD's test list.",
    splits={
        "broad-novel-classes/openimage_o": dataclasses.replace(
            OPENIMAGES,
            partitions=("test", "val"),
            paper=PaperCount(15_869, "asked for with --openimage-o-all: OpenOOD's validation list, too"),
        )
    },
)


def _attacked(generators: Mapping[str, Generator]) -> dict[str, Split]:
    """The splits of broad-adversarial that some generators make, by their keys."""
    return {
        f"broad-adversarial/{name}": originals(name, "adversarial", generator=generator, paper=PaperCount(5_000))
        for name, generator in generators.items()
    }


def _asked_for(values: Mapping[str, Any]) -> dict[str, Split]:
    return _attacked(flags.generators(values))


ADVERSARIAL = Config(
    name="broad-adversarial",
    labels=LABELS,
    description="The originals of `broad-reference`'s test, attacked on two models within an L-infinity distance of "
    "0.05, at each model's own size. Pixels are rounded to 8 bits and at most 12 steps from the original's, and the "
    "columns are about what is stored: a row whose attack failed (`success`) stays. Not the authors' own images, "
    "which differ in whatever the paper does not name, such as the length of PGD's steps.",
    splits=tuple(_attacked(flags.declared()).values()),
)
BENCHMARK = Benchmark(
    name="broad",
    title="BROAD, Benchmarking Resilience Over Anomaly Diversity",
    version="1.0.0",
    seed=0,
    paper=papers.GUILLE_2023,
    citation=papers.GUILLE_2023_BIBTEX,
    configs=(REFERENCE, NOVEL_CLASSES, ADVERSARIAL, MULTI_LABEL),
    variants=(OPENIMAGE_O_ALL, LAST_OBJECTS),
    settings=(Settings(flags.FLAGS, _asked_for),),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    from builders.pipeline.command import run_command

    return run_command(BENCHMARK, argv)


if __name__ == "__main__":
    without_pandas()
    sys.exit(main())
