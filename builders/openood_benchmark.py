"""The benchmarks that the field reports on: OpenOOD v1.5's on CIFAR and ImageNet, MOS's four sets, ImageNet-OOD.

Every split has exactly the images of the published lists (`taxonomy.lists`): Zhang et al., "OpenOOD v1.5" (2023);
Huang and Li, "MOS" (2021); Yang, Zhang and Russakovsky, "ImageNet-OOD" (2024). Where a list has all images of a source
or of some classes, the split takes these. Nothing is drawn, so the seed orders rows and chooses none.

- openood-cifar10, openood-cifar100: CIFAR's test images in two parts, near and far unknowns, and unknowns for tuning.
- openood-cifar10-train, openood-cifar100-train: their training images.
- openood-imagenet1k: ImageNet-1k's validation images in two parts, near and far unknowns, and unknowns for tuning.
- openood-imagenet1k-shifted: known classes in other pictures, which OpenOOD's full spectrum counts as known. Nobody's
  corruption is repeated: ImageNet-C's images are those of the published archives.
- openood-imagenet200: the classes of ImageNet-R alone are known; the unknown images are the same.
- openood-imagenet200-shifted: the rows of openood-imagenet1k-shifted whose classes are known there. OpenOOD has its
  lists in an archive alone, and we know one public copy of them (github.com/moxime/ooddict at a4cb1ff,
  data/benchmark_imglist/imagenet200/test_imagenet200_{v2,r,c}.txt): it has these rows and labels, and no others.
- mos: the unknown sets iNaturalist, SUN, Places and Textures.
- imagenet-es: the test set of ImageNet-ES, known classes photographed from a screen, only built on request. OpenOOD's
  full spectrum has a list of it since July 2024, which we have not found published but in its archive.
- imagenet-ood: the images of ImageNet-21k that ImageNet-OOD's authors chose.
- openood-imagenet1k-train, openood-imagenet200-train: the training images, only built if `--splits` names them, and
  without pixels but with `--with-images`.

Tested by `tests/builders/test_openood_benchmark.py`.
"""

from __future__ import annotations

import functools
import sys

from builders.declare import papers
from builders.declare.benchmark import Benchmark, Variant
from builders.declare.quotas import AllImages, Listed, Rest
from builders.declare.splits import AllClasses, ChosenClasses, Classes, ClassesOf, Config, PaperCount, Split
from builders.sources.datasets.cifar10 import CIFAR10
from builders.sources.datasets.cifar100 import CIFAR100
from builders.sources.datasets.dtd import DTD
from builders.sources.datasets.imagenet import IMAGENET
from builders.sources.datasets.imagenet21k import IMAGENET21K
from builders.sources.datasets.imagenet_c import IMAGENET_C
from builders.sources.datasets.imagenet_es import IMAGENET_ES
from builders.sources.datasets.imagenet_r import IMAGENET_R
from builders.sources.datasets.imagenet_v2 import IMAGENET_V2
from builders.sources.datasets.inaturalist import INATURALIST
from builders.sources.datasets.mnist import MNIST
from builders.sources.datasets.mos_sun import MOS_SUN
from builders.sources.datasets.ninco import NINCO
from builders.sources.datasets.openimage_o import OPENIMAGE_O
from builders.sources.datasets.places365 import PLACES365
from builders.sources.datasets.sun397 import SUN397
from builders.sources.datasets.svhn import SVHN
from builders.sources.datasets.tiny_imagenet import TINY_IMAGENET
from unknown_detection.commands import run_builder

LABELS = ClassesOf(IMAGENET)
LABELS_200 = Classes("openood-imagenet200", "keep")
EVERY = AllClasses("the lists have images of all classes")
BY_LIST = AllClasses("the list names images, of whatever class")

_known = functools.partial(Split, role="in_distribution", source=IMAGENET)
_validation = functools.partial(_known, "validation", partitions=("val",))
_test = functools.partial(_known, "test", partitions=("val",))
_train = functools.partial(_known, "train", partitions=("train",), quota=AllImages())
_near = functools.partial(Split, role="near_ood", source=IMAGENET21K, quota=AllImages())
_shifted = functools.partial(Split, role="corruption", classes=EVERY, quota=AllImages())
_far = functools.partial(Split, role="far_ood", partitions=("images",), quota=AllImages())

INATURALIST_SET = _far("inaturalist", source=INATURALIST, classes=EVERY, paper=PaperCount(10_000))
UNKNOWN = (
    _near("ssb_hard", partitions=("ssb_hard",), classes=Classes("ssb-hard", "keep"), paper=PaperCount(49_000)),
    _near("ninco", source=NINCO, partitions=("images",), classes=EVERY, paper=PaperCount(5_879)),
    INATURALIST_SET,
    _far("textures", source=DTD, classes=Classes("openood-textures", "keep"), paper=PaperCount(5_160)),
    _far("openimage_o", source=OPENIMAGE_O, partitions=("test",), classes=EVERY, paper=PaperCount(15_869)),
    Split(
        "openimage_o_validation",
        "external",
        source=OPENIMAGE_O,
        partitions=("val",),
        classes=EVERY,
        quota=AllImages(),
        paper=PaperCount(1_763),
    ),
)

KINSHIP = (
    "By WordNet, 160 of SSB-hard's 980 classes descend from a known class (8,000 rows, as blue jay from jay), and 32 "
    "are above one (1,600 rows, as goat above ibex); `id_overlap_kind` says which. That is no look at the images: "
    "SSB's authors chose classes by semantic distance. NINCO's authors looked at every image of NINCO, and at 400 "
    "each of iNaturalist and OpenImage-O (`examined`, `known_object_seen`)."
)


def _spectrum(classes: ChosenClasses, images: int) -> tuple[Split, ...]:
    """Return the shifted sets of OpenOOD's full spectrum; V2 and C have ten images of each class, R all of 200."""
    return (
        _shifted("imagenet_v2", source=IMAGENET_V2, partitions=("images",), classes=classes, paper=PaperCount(images)),
        _shifted("imagenet_r", source=IMAGENET_R, partitions=("images",), classes=classes, paper=PaperCount(30_000)),
        _shifted("imagenet_c", source=IMAGENET_C, partitions=("openood",), classes=classes, paper=PaperCount(images)),
    )


OPENOOD_1K = Config(
    name="openood-imagenet1k",
    labels=LABELS,
    description="OpenOOD v1.5 on ImageNet-1k: near unknowns (SSB-hard, NINCO), far ones (iNaturalist, Textures, "
    f"OpenImage-O), and images of OpenImage-O to tune on. {KINSHIP}",
    overlaps="broad",
    overlap_kinds=True,
    splits=(
        _validation(classes=EVERY, quota=Listed(5_000, "openood_validation"), paper=PaperCount(5_000)),
        _test(classes=EVERY, quota=Rest("openood-imagenet1k/validation"), paper=PaperCount(45_000)),
        *UNKNOWN,
    ),
)
SHIFTED_1K = Config(
    name="openood-imagenet1k-shifted",
    labels=LABELS,
    description="Known classes in other pictures: ImageNet-V2's new photographs, ImageNet-R's renditions, and one "
    "corrupted copy each of 10,000 test images from ImageNet-C.",
    splits=_spectrum(EVERY, 10_000),
)
SCREENS = Config(
    name="imagenet-es",
    labels=LABELS,
    description="ImageNet-ES's test set: 1,000 of ImageNet's validation images, five each of 200 classes, "
    "photographed from a screen with the light on and off (`light`), with 27 settings of the camera and five times "
    "with automatic exposure (`camera_setting`). Which of them OpenOOD's full spectrum lists is not said here.",
    splits=(
        _shifted("param_control", source=IMAGENET_ES, partitions=("param_control",), paper=PaperCount(54_000)),
        _shifted("auto_exposure", source=IMAGENET_ES, partitions=("auto_exposure",), paper=PaperCount(10_000)),
    ),
    optional=True,
)
OPENOOD_200 = Config(
    name="openood-imagenet200",
    labels=LABELS_200,
    description="OpenOOD v1.5 on ImageNet-200, the classes of ImageNet-R: its validation and test images are among "
    "those of `openood-imagenet1k`, its unknown images are the same.",
    overlaps="broad",
    overlap_kinds=True,
    splits=(
        _validation(classes=LABELS_200, quota=Listed(1_000, "openood_validation"), paper=PaperCount(1_000)),
        _test(classes=LABELS_200, quota=Rest("openood-imagenet200/validation"), paper=PaperCount(9_000)),
        *UNKNOWN,
    ),
)
SHIFTED_200 = Config(
    name="openood-imagenet200-shifted",
    labels=LABELS_200,
    description="The known classes of `openood-imagenet200` in other pictures: the rows of "
    "`openood-imagenet1k-shifted` of these classes. OpenOOD has its lists in an archive alone; the one public copy of "
    "them that we know has the same rows.",
    splits=_spectrum(LABELS_200, 2_000),
)
SUN = _far(
    "sun",
    source=SUN397,
    classes=BY_LIST,
    quota=Listed(10_000, "mos_sun", by_name=True),
    paper=PaperCount(10_000),
)
MOS = Config(
    name="mos",
    labels=LABELS,
    description="The four unknown sets of MOS. SUN and Places are found by name in SUN397 and Places365; which "
    "category an image of SUN has was lost in the published archive, and is SUN397's here.",
    overlaps="broad",
    overlap_kinds=True,
    splits=(
        _test(classes=EVERY, quota=AllImages(), paper=PaperCount(50_000)),
        INATURALIST_SET,
        SUN,
        _far(
            "places",
            source=PLACES365,
            partitions=("train", "val"),
            classes=BY_LIST,
            quota=Listed(10_000, "mos_places"),
            paper=PaperCount(10_000),
        ),
        _far("textures", source=DTD, classes=EVERY, paper=PaperCount(5_640)),
    ),
)
IMAGENET_OOD = Config(
    name="imagenet-ood",
    labels=LABELS,
    description="ImageNet-OOD: images of 637 classes of ImageNet-21k, of which by WordNet one descends from a known "
    "class (50 rows) and two are above one (100 rows).",
    overlaps="broad",
    overlap_kinds=True,
    splits=(
        _test(classes=EVERY, quota=AllImages(), paper=PaperCount(50_000)),
        _near(
            "imagenet_ood",
            partitions=("imagenet_ood",),
            classes=Classes("imagenet-ood", "keep"),
            paper=PaperCount(31_802),
        ),
    ),
)
PUBLISHED_SUN = Variant(
    name="published-sun",
    help="Folder of SUN as MOS's authors published it (SUN.tar.gz or SUN/images/): take mos/sun from it instead of "
    "SUN397. Its images have no categories.",
    splits={"mos/sun": _far("sun", source=MOS_SUN, classes=EVERY, paper=PaperCount(10_000))},
    source=MOS_SUN,
)
TRAIN_1K = Config(
    name="openood-imagenet1k-train",
    labels=LABELS,
    description="ImageNet-1k's training images, for detectors that are fitted on them.",
    splits=(_train(classes=EVERY, paper=PaperCount(1_281_167)),),
    optional=True,
    index_only=True,
)
TRAIN_200 = Config(
    name="openood-imagenet200-train",
    labels=LABELS_200,
    description="The training images of ImageNet-200's classes.",
    splits=(_train(classes=LABELS_200, paper=PaperCount(258_951)),),
    optional=True,
    index_only=True,
)

_CIFAR = {"cifar10": CIFAR10, "cifar100": CIFAR100}


def _of_cifar(name: str, near: Split, *, tin: int, tin_validation: int, places: int, overlaps: str) -> Config:
    """Return OpenOOD's config of CIFAR-10 or CIFAR-100; the counts are those of its lists."""
    source, key = _CIFAR[name], f"openood-{name}"
    known = functools.partial(_known, source=source, partitions=("test",), classes=EVERY)
    listed = functools.partial(Split, source=TINY_IMAGENET, partitions=("val",), classes=BY_LIST)
    far = functools.partial(Split, role="far_ood", classes=EVERY, quota=AllImages())
    return Config(
        name=key,
        labels=ClassesOf(source),
        description=f"OpenOOD v1.5 on {source.title}: near unknowns ({near.source.title}, Tiny ImageNet), far ones "
        "(MNIST, SVHN, Textures, Places365), and other images of Tiny ImageNet to tune on. Every image has its "
        "source's own size and pixels; OpenOOD's files of MNIST, SVHN and Tiny ImageNet are JPEGs, those of MNIST and "
        "SVHN made by its authors.",
        overlaps=overlaps,
        overlap_kinds=True,
        duplicates_of=f"{key}-train/train",
        splits=(
            known("validation", quota=Listed(1_000, f"openood_{name}_validation"), paper=PaperCount(1_000)),
            known("test", quota=Rest(f"{key}/validation"), paper=PaperCount(9_000)),
            near,
            listed("tin", role="near_ood", quota=Listed(tin, f"openood_{name}_tin"), paper=PaperCount(tin)),
            far("mnist", source=MNIST, partitions=("train", "test"), paper=PaperCount(70_000)),
            far("svhn", source=SVHN, partitions=("test",), paper=PaperCount(26_032)),
            far("texture", source=DTD, partitions=("images",), paper=PaperCount(5_640)),
            far(
                "places365",
                source=PLACES365,
                partitions=("val",),
                classes=BY_LIST,
                quota=Listed(places, f"openood_{name}_places"),
                paper=PaperCount(places),
            ),
            listed(
                "tin_validation",
                role="external",
                quota=Listed(tin_validation, f"openood_{name}_tin_validation"),
                paper=PaperCount(tin_validation),
            ),
        ),
    )


def _train_of_cifar(name: str) -> Config:
    source = _CIFAR[name]
    return Config(
        name=f"openood-{name}-train",
        labels=ClassesOf(source),
        description=f"{source.title}'s training images, kept apart so that evaluating never downloads them.",
        splits=(_train(source=source, classes=EVERY, paper=PaperCount(50_000)),),
    )


OPENOOD_CIFAR10 = _of_cifar(
    "cifar10",
    _near(
        "cifar100",
        source=CIFAR100,
        partitions=("test",),
        classes=BY_LIST,
        quota=Listed(9_000, "openood_cifar10_cifar100"),
        paper=PaperCount(9_000),
    ),
    tin=7_793,
    tin_validation=1_000,
    places=35_195,
    overlaps="cifar10",
)
OPENOOD_CIFAR100 = _of_cifar(
    "cifar100",
    _near("cifar10", source=CIFAR10, partitions=("test",), classes=EVERY, paper=PaperCount(10_000)),
    tin=6_526,
    tin_validation=972,
    places=33_773,
    overlaps="cifar",
)

BENCHMARK = Benchmark(
    name="openood",
    title="OpenOOD v1.5's benchmarks on CIFAR and ImageNet, the four sets of MOS, and ImageNet-OOD",
    version="1.1.0",
    seed=0,
    paper=papers.ZHANG_2023,
    citation=papers.OPENOOD_BIBTEX,
    configs=(
        OPENOOD_1K,
        SHIFTED_1K,
        OPENOOD_200,
        SHIFTED_200,
        MOS,
        IMAGENET_OOD,
        SCREENS,
        OPENOOD_CIFAR10,
        OPENOOD_CIFAR100,
        _train_of_cifar("cifar10"),
        _train_of_cifar("cifar100"),
        TRAIN_1K,
        TRAIN_200,
    ),
    roles_by_config=True,
    variants=(PUBLISHED_SUN,),
)

main = functools.partial(run_builder, BENCHMARK)
"""Runs the command line; returns its exit code."""

if __name__ == "__main__":
    sys.exit(main())
