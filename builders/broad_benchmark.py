"""BROAD, the benchmark of Guille-Escuret et al. (sections 2 and 4 of their paper): kinds of shift from ImageNet-1k.

ILSVRC2012's validation images are in-distribution. Configs:

- broad-reference: these images in two parts. `test` has the originals of the images that are made, and is the clean
  side of every comparison; `held_out` has the rest, 45,000 images, on which mixtures of scores are fitted.
- broad-novel-classes: three existing sets of classes that ImageNet-1k does not have.
- broad-multi-label: COCO images of several ImageNet classes, and of one alone (`builders.broad.multi_label`).
- broad-synthetic: images that BigGAN and Stable Diffusion make of the classes (`builders.broad.synthetic`).
- broad-adversarial: the originals of broad-reference, attacked on two models (`builders.broad.adversarial`).
  With --adopt-partial-broad it and broad-synthetic have the authors' own images (`builders.broad.adopted`).
- broad-corruptions: corrupted copies of the reference's images. broad-corruptions-more has all other corruptions and
  severities of ImageNet-C, and is only built if `--splits` names it.

`label` counts ImageNet-1k's classes, the sorted wnids.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

from builders.broad.adopted import ADOPTED, ORIGINALS
from builders.broad.adversarial import ADVERSARIAL, ATTACKS
from builders.broad.multi_label import LAST_OBJECTS, MULTI_LABEL
from builders.broad.originals import ALL_KNOWN, LABELS, originals
from builders.broad.synthetic import GENERATIVE_MODELS, SYNTHETIC
from builders.declare import papers
from builders.declare.benchmark import (
    AllClasses,
    AllImages,
    Benchmark,
    Config,
    PaperCount,
    Rest,
    Split,
    Variant,
)
from builders.generate.exact.corruptions import DESCRIPTIONS, SEVERITIES, corruption
from builders.sources.imagenet import IMAGENET
from builders.sources.imagenet_o import IMAGENET_O
from builders.sources.inaturalist import INATURALIST
from builders.sources.openimage_o import OPENIMAGE_O
from builders.sources.partial_broad import PARTIAL_BROAD
from unknown_detection.commands import run_builder

ALL_NEW = AllClasses("the set was made of classes that ImageNet-1k does not have (section 2.1)")

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
    "looked at 400 of each (`examined`) and saw objects of ImageNet-1k (`known_object_seen`) on 10 of iNaturalist's, "
    "78 of ImageNet-O's and 19 of OpenImage-O's, 16 of these in OpenOOD's test list. Images of OpenImage-O have no "
    "class, so that none has an `id_overlap`.",
    overlaps="broad",
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

_UNKNOWN_SIZE = "the paper does not say how many images it corrupts; these are as many as its attacks change"


def _corrupted(name: str, kind: str, severity: int) -> Split:
    generator = corruption(kind, severity)
    return originals(name, "corruption", generator=generator, paper=PaperCount(5_000, _UNKNOWN_SIZE))


# Section 2.4; severity 5 is the only one that the paper uses.
PAPERS_CORRUPTIONS = ("defocus_blur", "gaussian_noise", "snow", "brightness")
CORRUPTIONS = Config(
    name="broad-corruptions",
    labels=LABELS,
    description="The images of `broad-reference/test` with four corruptions of ImageNet-C at their greatest severity. "
    "The authors published none of theirs.",
    splits=tuple(_corrupted(name, name, 5) for name in PAPERS_CORRUPTIONS),
)
MORE_CORRUPTIONS = Config(
    name="broad-corruptions-more",
    labels=LABELS,
    description="The same images with other corruptions and severities of ImageNet-C, which are not in the paper.",
    splits=tuple(
        _corrupted(f"{kind}_{severity}", kind, severity)
        for kind in DESCRIPTIONS
        for severity in SEVERITIES
        if severity < 5 or kind not in PAPERS_CORRUPTIONS
    ),
    optional=True,
)


def _all_corrupted(**changes: Any) -> dict[str, Split]:
    declared = [(config.name, split) for config in (CORRUPTIONS, MORE_CORRUPTIONS) for split in config.splits]
    return {
        f"{config}/{split.name}": dataclasses.replace(split, **changes)
        for config, split in declared
        if isinstance(split, Split)
    }


ADOPT_PARTIAL_BROAD = Variant(
    name="adopt-partial-broad",
    help="Folder of the authors' own images (ServiceNow/PartialBROAD): build the adversarial and synthetic configs of "
    "them, and take the adversarial images' originals as broad-reference/test.",
    splits={
        "broad-reference/test": originals("test", "in_distribution", paper=PaperCount(5_000), quota=ORIGINALS),
        **_all_corrupted(quota=ORIGINALS),
    },
    configs=ADOPTED,
    source=PARTIAL_BROAD,
)
CORRUPT_ALL = Variant(
    name="corrupt-all",
    help="Corrupt all 50,000 validation images instead of the 5,000 of broad-reference/test.",
    splits=_all_corrupted(
        quota=AllImages(), paper=PaperCount(5_000, f"asked for with --corrupt-all; {_UNKNOWN_SIZE}")
    ),
)

BENCHMARK = Benchmark(
    name="broad",
    title="BROAD, Benchmarking Resilience Over Anomaly Diversity",
    version="1.1.0",
    seed=0,
    paper=papers.GUILLE_2023,
    citation=papers.GUILLE_2023_BIBTEX,
    configs=(REFERENCE, NOVEL_CLASSES, ADVERSARIAL, SYNTHETIC, CORRUPTIONS, MORE_CORRUPTIONS, MULTI_LABEL),
    variants=(OPENIMAGE_O_ALL, LAST_OBJECTS, ADOPT_PARTIAL_BROAD, CORRUPT_ALL),
    settings=(ATTACKS, GENERATIVE_MODELS),
)

main = functools.partial(run_builder, BENCHMARK)
"""Runs the command line; returns its exit code."""

if __name__ == "__main__":
    sys.exit(main())
