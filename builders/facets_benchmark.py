"""FACETS, the benchmark of Recalcati et al. (section IV and tables II to V of their paper).

Places365 is in-distribution. Every config has a validation and a test split of equal size, each joined from parts:
images that count as in-distribution and images that do not, of several sources. A part of the test split takes the
images that the same part of the validation split leaves, so that no image is in both.

- facets-baseline: house numbers are unknown. SVHN has no scene, hence `far_ood`.
- facets-inter-dataset: ImageNet's classes are, but for those that Places365 has by name.
- facets-wordnet-t40, -t45, -t50: ImageNet's classes are, where WordNet puts them farther from Places365's than 0.40,
  0.45 or 0.50.
- facets-t1, facets-t2: classes of SUN397 and ImageNet are, by grades that we gave (`taxonomy.grading` has their
  rules). Animals whose one habitat is a Places365 class are known, as some are to the authors (section VI); with
  --animals-unknown none is.

The paper says "OOD" and no more. Scenes and objects that may stand in a scene are `near_ood` here: whether they are
known differs by config. For the same reason one image has different roles in different configs.

`label` counts Places365's classes in its own order. Rows of other sources have none (-1), also where their class
counts as in-distribution: a Places365 model is right about them by meaning, not by label. `oodness` is the grade in T1
and T2 (SUN397 0 to 3, ImageNet 0 or 1), 1 less the similarity in the WordNet configs, and 0 or 1 in the others.

All parts share one ranking of the images, so that the configs share as many images as their quotas allow, and a
model's scores on one config cover part of the next.
"""

from __future__ import annotations

import dataclasses
import functools
import sys

from builders.declare import papers
from builders.declare.benchmark import Benchmark, Variant
from builders.declare.quotas import Half, PerClass, Ranked, Rest, Total
from builders.declare.splits import AllClasses, Classes, ClassesOf, Config, JoinedSplit, Oodness, PaperCount, Part
from builders.sources.datasets.imagenet import IMAGENET
from builders.sources.datasets.places365 import PLACES365
from builders.sources.datasets.sun397 import SUN397
from builders.sources.datasets.svhn_full import SVHN_FULL
from taxonomy.decisions import load_decisions
from taxonomy.grading import NO_ANIMALS
from taxonomy.rules import facets
from unknown_detection.commands import run_builder

KNOWN, UNKNOWN = "in_distribution", "out_of_distribution"
ALL_KNOWN = AllClasses("the benchmark's in-distribution classes are all 365 (section IV)")
DIGITS = AllClasses("a house number is no scene (section IV)")
GRADED = "facets-imagenet"


def _grades(source: str, limit: float) -> Oodness:
    return Oodness(lambda: {grade.class_id: float(grade.grade) for grade in facets.grades(source)}, limit)


def _imagenet_grades(table: str) -> Oodness:
    return Oodness(lambda: {item.class_id: float(item.decision == UNKNOWN) for item in load_decisions(table)}, 0.0)


# The same for all parts of a source's partition. Half of a class's images is its share of either split: 50 of
# Places365's 100 and 25 of ImageNet's 50 validation images. Of ImageNet's training images the paper has a total.
_part = functools.partial(Part, ranked_as="facets-t1/validation")
_sun = functools.partial(_part, source=SUN397, partitions=("images",), quota=Half())
_of_train = functools.partial(_part, source=IMAGENET, partitions=("train",))
_val = functools.partial(_part, source=IMAGENET, partitions=("val",), quota=Half())
_unlike = Oodness.equal(SVHN_FULL, 1.0)
_svhn = functools.partial(_part, role="far_ood", source=SVHN_FULL, classes=DIGITS, oodness=_unlike)
PLACES = _part(
    name="places365",
    role="in_distribution",
    source=PLACES365,
    partitions=("val",),
    classes=ALL_KNOWN,
    quota=Half(),
    paper=PaperCount(18_250, classes=365),
    oodness=Oodness.equal(PLACES365, 0.0),
)


def _train(classes: Classes, paper: PaperCount, oodness: Oodness) -> Part:
    quota = Total(paper.rows, half=True)
    return _of_train("imagenet_train", "near_ood", classes=classes, quota=quota, paper=paper, oodness=oodness)


def _config(name: str, description: str, *parts: Part, published: str = "") -> Config:
    """Declare a validation split of scenes and other parts, and a test split of the rest; `published` names lists.

    The test split has as many of each part: the other half of a class, or the next images by keyed rank.
    """
    validation = JoinedSplit("validation", (PLACES, *parts), published.format("val"))
    others = []
    for part in validation.parts:
        before = f"{name}/validation.{part.name}"
        more = dataclasses.replace(part.quota, half=False, parent=before) if isinstance(part.quota, Ranked) else None
        others.append(dataclasses.replace(part, quota=more or Rest(before)))
    test = JoinedSplit("test", tuple(others), published.format("test"))
    return Config(name, ClassesOf(PLACES365), description, (validation, test), overlaps="facets")


def _wordnet(config: str, known: int, rows: int) -> Config:
    """Declare a WordNet config, in which the paper has `known` known classes and `rows` unknown rows a split."""
    near, limit = Classes(config, KNOWN), facets.THRESHOLDS[config]
    distances = Oodness(lambda: {row.class_id: row.oodness for row in facets.oodness()}, limit)
    why = f"our synsets for Places365 put {{}} ImageNet classes within the threshold, the authors' {known}"
    paper, quota = PaperCount(50 * known, why, known, near), PerClass(50, half=True)
    return _config(
        config,
        "Scenes, and ImageNet's classes by their WordNet distance to the nearest Places365 class: known up to "
        f"{limit:.2f}.",
        _of_train(
            "imagenet_train_known", "in_distribution", classes=near, quota=quota, paper=paper, oodness=distances
        ),
        _train(Classes(config, UNKNOWN), PaperCount(rows, classes=1_000 - known), distances),
        published=f"wordnet_dataset_{{}}_{config.rpartition('-')[2]}.txt",
    )


def _graded(
    config: str, description: str, known: int, rows: tuple[int, int], train: int, imagenet: str = GRADED
) -> Config:
    """Declare T1 or T2, in which the paper has `known` in-distribution classes of SUN397.

    A split of the paper's has `rows` known and unknown images of SUN397, and `train` of ImageNet's training images.
    `imagenet` is the table that says which ImageNet classes are known.
    """
    table = f"{config}-sun397"
    near, far = Classes(table, KNOWN), Classes(table, UNKNOWN)
    known_objects, unknown_objects = Classes(imagenet, KNOWN), Classes(imagenet, UNKNOWN)
    grades, distances = _grades("sun397", facets.GRADE_LIMITS[table][1]), _imagenet_grades(imagenet)
    ours = "the grades are ours: {{}} {} classes are known by them, by the authors' {}"
    note = "; the paper's table has one number for both splits, which is the validation split's"
    sun, val = ours.format("SUN397", known) + note, ours.format("ImageNet", 356)
    known_sun, unknown_sun = PaperCount(rows[0], sun, known, near), PaperCount(rows[1], sun, 397 - known, near)
    known_val = PaperCount(25 * 356, val, 356, known_objects)
    unknown_val = PaperCount(25 * 644, val, 644, known_objects)
    return _config(
        config,
        description,
        _sun("sun397_known", "in_distribution", classes=near, paper=known_sun, oodness=grades),
        _sun("sun397", "near_ood", classes=far, paper=unknown_sun, oodness=grades),
        _val("imagenet_val_known", "in_distribution", classes=known_objects, paper=known_val, oodness=distances),
        _val("imagenet_val", "near_ood", classes=unknown_objects, paper=unknown_val, oodness=distances),
        _train(unknown_objects, PaperCount(train, classes=644), distances),
        published=f"facets_ood_{{}}_{config.rpartition('-')[2]}.txt",
    )


# The numbers are those of table V. By section VI some animals were graded as known, which the authors call an error:
# the default is what was done, the variant what they would rather have.
_t1 = functools.partial(
    _graded,
    "facets-t1",
    "Scenes of two sources and objects, graded by hand (by us, not by the authors); SUN397's grades 0 and 1 count as "
    "known.",
    known=319,
    rows=(46_851, 7_530),
    train=50_232,
)
_t2 = functools.partial(
    _graded,
    "facets-t2",
    "The same with SUN397's grades 0, 1 and 2 as known; the grades are ours.",
    known=351,
    rows=(49_827, 4_554),
    train=56_606,
)
ANIMALS_UNKNOWN = Variant(
    name="animals-unknown",
    help="Count all animals as unknown in facets-t1 and facets-t2, even those whose one kind of place Places365 has.",
    splits={
        f"{config.name}/{split.name}": split
        for config in (_t1(imagenet=NO_ANIMALS), _t2(imagenet=NO_ANIMALS))
        for split in config.splits
    },
)

BENCHMARK = Benchmark(
    name="facets",
    title="FACETS out-of-distribution benchmark",
    version="2.0.0",
    seed=0,
    paper=papers.RECALCATI_2023,
    citation=papers.RECALCATI_2023_BIBTEX,
    roles_by_config=True,
    index_words={
        "places_val": (PLACES365.key, "val"),
        "sun": (SUN397.key, "images"),
        "in_val": (IMAGENET.key, "val"),
        "in_train": (IMAGENET.key, "train"),
    },
    configs=(
        # The authors publish lists of this config too, but we do not know their word for SVHN. 16,701 is half of its
        # training images, and 1,549 brings both sides to 18,250.
        _config(
            "facets-baseline",
            "Scenes against house numbers: the easiest of the seven.",
            _svhn("svhn_train", partitions=("train",), quota=Half(), paper=PaperCount(16_701, "", 1)),
            _svhn("svhn_test", partitions=("test",), quota=Total(1_549, half=True), paper=PaperCount(1_549, "", 1)),
        ),
        _config(
            "facets-inter-dataset",
            "Scenes against ImageNet's classes, without those that have the name of a Places365 class.",
            _train(
                Classes("facets-inter-dataset", UNKNOWN), PaperCount(18_108, classes=968), Oodness.equal(IMAGENET, 1.0)
            ),
            published="inter_dataset_{}.txt",
        ),
        _wordnet("facets-wordnet-t40", 56, 21_332),
        _wordnet("facets-wordnet-t45", 90, 22_750),
        _wordnet("facets-wordnet-t50", 140, 25_560),
        _t1(),
        _t2(),
    ),
    variants=(ANIMALS_UNKNOWN,),
)

main = functools.partial(run_builder, BENCHMARK)
"""Runs the command line; returns its exit code."""

if __name__ == "__main__":
    sys.exit(main())
