"""BROAD, the benchmark of Guille-Escuret et al. (sections 2 and 4 of their paper): kinds of shift from ImageNet-1k.

ILSVRC2012's validation images are in-distribution. Configs:

- broad-reference: these images in two parts. `test` has the originals of the images that are made, and is the clean
  side of every comparison; `held_out` has the rest, 45,000 images, on which mixtures of scores are fitted.
- broad-novel-classes: three existing sets of classes that ImageNet-1k does not have.
- broad-multi-label: COCO images of several ImageNet classes, and of one alone.
- broad-synthetic: images that BigGAN and Stable Diffusion make of the classes.
- broad-adversarial: the originals of broad-reference, attacked on two models.
  With --adopt-partial-broad it and broad-synthetic have the authors' own images.
- broad-corruptions: corrupted copies of the reference's images. broad-corruptions-more has all other corruptions and
  severities of ImageNet-C, and is only built if `--splits` names it.

`label` counts ImageNet-1k's classes, the sorted wnids.

Tested by `tests/builders/test_broad_benchmark.py`, `tests/builders/test_broad_adopted.py` and
`tests/builders/test_broad_multi_label.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Mapping
from typing import Any

from builders.declare import papers
from builders.declare.benchmark import Benchmark, DemoModels, Settings, Variant
from builders.declare.quotas import AllImages, Largest, Originals, PerClass, Rest
from builders.declare.splits import (
    AllClasses,
    AuthorsImages,
    Classes,
    ClassesOf,
    Config,
    FirstClasses,
    PaperCount,
    Split,
)
from builders.generate.adversarial import flags
from builders.generate.contract import Generator
from builders.generate.exact.corruptions import DESCRIPTIONS, SEVERITIES, corruption
from builders.generate.exact.deciphered import partial_broad
from builders.generate.flags import DEVICE, Flag
from builders.generate.synthetic import biggan, stable_diffusion
from builders.generate.synthetic import demo as models
from builders.sources.datasets.coco2017 import COCO2017, source_id
from builders.sources.datasets.imagenet import IMAGENET
from builders.sources.datasets.imagenet_o import IMAGENET_O
from builders.sources.datasets.inaturalist import INATURALIST
from builders.sources.datasets.openimage_o import OPENIMAGE_O
from builders.sources.datasets.partial_broad import ADVERSARIAL as ADVERSARIAL_PARTITIONS
from builders.sources.datasets.partial_broad import PARTIAL_BROAD
from builders.sources.made import BIGGAN_IMAGES, PARTITION, STABLE_DIFFUSION_IMAGES
from taxonomy import tables
from unknown_detection.commands import run_builder

LABELS = ClassesOf(IMAGENET)
ALL_KNOWN = AllClasses("the benchmark's in-distribution classes are all 1,000 (section 2)")

# Neither the paper nor its repository says which 5,000 they are; 5 a class is ours.
originals = functools.partial(
    Split,
    source=IMAGENET,
    partitions=("val",),
    classes=ALL_KNOWN,
    quota=PerClass(5, half=True),
    ranked_as="broad-reference/test",
)

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

# Images of several classes
#
# CoComageNet has the COCO images with at least two of the 17 categories that ImageNet shares, in which the second-
# largest covers most (section 2.5). Its sister has images of one category, people aside, as evenly from the 17 as they
# allow: of a category with fewer than 157 such images all, of the others the 157 in which it covers most, and 158 for
# the two most populated (appendix A), which is an even share of 2,000.
#
# "Total area" is read as the union of a category's masks, crowds included. The authors' lists were made otherwise. Of
# 393 training images whose annotations are in public repositories, 40 have two of the categories. By second area their
# list cannot have the six of these that it has (344065, 620, 397, 106497, 450 and 516008, with 0.131, 0.075, 0.044,
# 0.034, 0.033 and 0.016) without 488571 (0.110), 9 (0.034) and three more, which it lacks; sums of areas rank them
# alike. The six are the first six by the area of each category's last annotated object alone, which a program has that
# overwrites a category's area instead of adding to it (and by the median of its objects' areas; not by the largest,
# the first, the smallest or the mean). The 11 images of one category alone contradict neither. So the build compares
# the lists with both readings, `--last-object-areas` draws by the other one, and `--adopt` builds exactly what the
# authors list.

_COCO_IMAGES = 2_000


def _authors(split: str, other_column: str) -> AuthorsImages:
    def listed() -> Mapping[str, str]:
        images = [image for image in tables.cocomagenet_images() if image.split == split]
        return {source_id(image.image_id): image.category for image in images}

    return AuthorsImages(listed, source_id, other_column)


_of_coco = functools.partial(
    Split, role="multi_label", source=COCO2017, partitions=("train",), paper=PaperCount(_COCO_IMAGES)
)

SEVERAL = _of_coco(
    name="cocomagenet",
    classes=AllClasses("images with a second area are those with two of the 17 classes (section 2.5)"),
    quota=Largest(_COCO_IMAGES, "second_area"),
    published="CoComageNet.json",
    authors=_authors("cocomagenet", "second_object_area"),
)
ALONE = _of_coco(
    name="cocomagenet_mono",
    classes=Classes("cocomagenet", "shared"),
    quota=Largest(_COCO_IMAGES, "largest_area", evenly=True),
    published="CoComageNet-mono.json",
    authors=_authors("cocomagenet_mono", "largest_object_area"),
)

MULTI_LABEL = Config(
    "broad-multi-label",
    ClassesOf(IMAGENET),
    "Photographs of several ImageNet classes at once, and of one alone: COCO's images of 17 shared classes.",
    (SEVERAL, ALONE),
)
"""The config; its splits draw from one source and have no image in common."""

LAST_OBJECTS = Variant(
    name="last-object-areas",
    help="Rank COCO's images by the area of each category's last annotated object alone, as the authors' lists seem "
    "to be ranked, instead of the union of all its masks, which is what their paper says.",
    splits={
        "broad-multi-label/cocomagenet": dataclasses.replace(
            SEVERAL,
            quota=Largest(_COCO_IMAGES, "second_object_area"),
            authors=_authors("cocomagenet", "second_area"),
        ),
        "broad-multi-label/cocomagenet_mono": dataclasses.replace(
            ALONE,
            quota=Largest(_COCO_IMAGES, "largest_object_area", evenly=True),
            authors=_authors("cocomagenet_mono", "largest_area"),
        ),
    },
)
"""The reading by which the lists agree with the authors' as far as they could be compared here."""

# Adversarial images: attacked on a person's own copies of the models


def _attacked(generators: Mapping[str, Generator]) -> dict[str, Split]:
    """Return the splits that some generators make, by name."""
    return {
        name: originals(name, "adversarial", generator=generator, paper=PaperCount(5_000))
        for name, generator in generators.items()
    }


ADVERSARIAL = Config(
    name="broad-adversarial",
    labels=LABELS,
    description="The originals of `broad-reference`'s test, attacked on two models within an L-infinity distance of "
    "0.05, at each model's own size. Pixels are rounded to 8 bits and at most 12 steps from the original's, and the "
    "columns are about what is stored: a row whose attack failed (`success`) stays. Not the authors' own images, "
    "which differ in whatever the paper does not name, such as the length of PGD's steps.",
    splits=tuple(_attacked(flags.declared_generators()).values()),
)

ATTACKS = Settings(
    config="broad-adversarial",
    flags=flags.FLAGS,
    splits=lambda values: _attacked(flags.generators(values)),
    # One image each, as in the demo's reference: 20 s on a core, with all steps.
    demo=DemoModels(
        ("model", "weights"), [*_attacked(flags.DEMO_MAKES).values()], flags.write_classifiers, FirstClasses(6)
    ),
)

# Synthetic images, made with a person's own copies of the models

# 25 images of each class by each model (section 2.3).
_synthetic = functools.partial(
    Split, role="synthetic", partitions=(PARTITION,), classes=ALL_KNOWN, quota=AllImages(), paper=PaperCount(25_000)
)
_of_biggan = functools.partial(_synthetic, "biggan", source=BIGGAN_IMAGES)
_of_stable_diffusion = functools.partial(_synthetic, "stable_diffusion", source=STABLE_DIFFUSION_IMAGES)

SYNTHETIC = Config(
    name="broad-synthetic",
    labels=LABELS,
    description="Images of ImageNet-1k's classes that generative models made: BigGAN-deep of the class itself, Stable "
    "Diffusion 2 of a prompt with one of the class's names. Two classes are named crane, and two maillot.",
    splits=(
        _of_biggan(generator=biggan.BIGGAN),
        _of_stable_diffusion(generator=stable_diffusion.STABLE_DIFFUSION),
    ),
)


def _synthetic_asked_for(values: Mapping[str, Any]) -> dict[str, Split]:
    splits = {}
    if (folder := values["biggan"]) is not None:
        splits["biggan"] = _of_biggan(generator=biggan.with_weights(folder, values["device"]))
    if (model := values["stable-diffusion"]) is not None:
        generator = stable_diffusion.with_weights(model, values["device"])
        splits["stable_diffusion"] = _of_stable_diffusion(generator=generator)
    return splits


GENERATIVE_MODELS = Settings(
    config="broad-synthetic",
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
    splits=_synthetic_asked_for,
    demo=DemoModels(("biggan", "stable-diffusion"), [*SYNTHETIC.parts.values()], models.write_models, FirstClasses(4)),
)

# Corruptions

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
    declared = {**CORRUPTIONS.parts, **MORE_CORRUPTIONS.parts}
    return {key: dataclasses.replace(split, **changes) for key, split in declared.items()}


# The authors' own images, from PartialBROAD: the adversarial ones are deciphered with a person's ImageNet files, the
# synthetic ones are stored as they are.

_ADOPTED_IMAGES = 5_000
"""Images of each adversarial set, and originals if the sets share them. Nobody has said whether they do."""

ORIGINALS = Originals(_ADOPTED_IMAGES, PARTIAL_BROAD, ADVERSARIAL_PARTITIONS)
"""The images that the adversarial ones are made of."""

_DECIPHERED = {
    "pgd_resnet50": ("adversarial_pgd_resnet", partial_broad("pgd", "resnet50", 224)),
    "autoattack_resnet50": ("adversarial_autoattack_resnet", partial_broad("autoattack", "resnet50", 224)),
    "pgd_vit": ("adversarial_pgd_vit", partial_broad("pgd", "vit", 384)),
    "autoattack_vit": ("adversarial_autoattack_vit", partial_broad("autoattack", "vit", 384)),
}
_their_synthetic = functools.partial(_synthetic, source=PARTIAL_BROAD)
ADOPTED = (
    Config(
        name="broad-adversarial",
        labels=LABELS,
        description="The authors' own adversarial images, made of ImageNet's validation images: L-infinity attacks of "
        "epsilon 0.05 on a ResNet-50 (224 pixels) and a ViT-B/16 (384 pixels).",
        splits=tuple(
            originals(
                name,
                "adversarial",
                quota=Originals(_ADOPTED_IMAGES, PARTIAL_BROAD, (partition,)),
                paper=PaperCount(_ADOPTED_IMAGES),
                generator=generator,
            )
            for name, (partition, generator) in _DECIPHERED.items()
        ),
    ),
    Config(
        name="broad-synthetic",
        labels=LABELS,
        description="The authors' own synthetic images of ImageNet's classes, 25 a class, by BigGAN-deep and by "
        "Stable Diffusion 2.",
        splits=(
            _their_synthetic("biggan", partitions=("synthetic_gan",)),
            _their_synthetic("stable_diffusion", partitions=("synthetic_diffusion",)),
        ),
    ),
)
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
    citation=PARTIAL_BROAD.citation,  # whose paper is this one
    configs=(REFERENCE, NOVEL_CLASSES, ADVERSARIAL, SYNTHETIC, CORRUPTIONS, MORE_CORRUPTIONS, MULTI_LABEL),
    variants=(OPENIMAGE_O_ALL, LAST_OBJECTS, ADOPT_PARTIAL_BROAD, CORRUPT_ALL),
    settings=(ATTACKS, GENERATIVE_MODELS),
)

main = functools.partial(run_builder, BENCHMARK)
"""Runs the command line; returns its exit code."""

if __name__ == "__main__":
    sys.exit(main())
