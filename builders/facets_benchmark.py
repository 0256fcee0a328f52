"""FACETS, the benchmark of Recalcati et al. (section IV and tables II to V of their paper).

Places365 is in-distribution. Every config has a validation and a test split of equal size, each joined from parts:
images that count as in-distribution and images that do not, of several sources. A part of the test split takes the
images that the same part of the validation split leaves, so that no image is in both.

- facets-baseline: house numbers are unknown. SVHN has no scene, hence `far_ood`.
- facets-inter-dataset: ImageNet's classes are, but for those that Places365 has by name.
- facets-wordnet-t40, -t45, -t50: ImageNet's classes are, where WordNet puts them farther from Places365's than 0.40,
  0.45 or 0.50.
- facets-t1, facets-t2: classes of SUN397 and ImageNet are, where people who read them say so
  (`taxonomy.rules.facets`).

The paper says "OOD" and no more. Scenes and objects that may stand in a scene are `near_ood` here: whether they are
known is what the configs differ in. For the same reason one image has different roles in different configs.

`label` counts Places365's classes in its own order. Rows of other sources have none (-1), also where their class
counts as in-distribution: a Places365 model is right about them by meaning, not by label. `oodness` is the grade in T1
and T2 (SUN397 0 to 3, ImageNet 0 or 1), 1 less the similarity in the WordNet configs, and 0 or 1 in the others.

All parts share one rank of the images, so that the configs have images in common as far as their quotas allow: whoever
scores a model on one has part of the next.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from builders import papers
from builders.benchmark import (
    AllOf,
    Benchmark,
    Classes,
    Config,
    Count,
    Every,
    Half,
    Oodness,
    PerClass,
    Rest,
    Split,
    Take,
    Total,
)
from builders.executors.processes import without_pandas
from builders.release.schema import Role
from builders.sources.base import Source
from builders.sources.imagenet import IMAGENET
from builders.sources.places365 import PLACES365
from builders.sources.sun397 import SUN397
from builders.sources.svhn_full import SVHN_FULL
from taxonomy import decisions
from taxonomy.rules import facets

KNOWN, UNKNOWN = "in_distribution", "out_of_distribution"
RANKED_AS = "facets-t1/validation"
ALL_KNOWN = Every("the benchmark's in-distribution classes are all 365 (section IV)")
DIGITS = Every("a house number is no scene (section IV)")

# Images a class in ILSVRC2012's validation set; half of them go to each split.
_VAL_IMAGES = 50


def _constant(source: Source, value: float) -> Callable[[], Mapping[str, float]]:
    return lambda: dict.fromkeys(source.classes(), value)


def _grades(source: str) -> Callable[[], Mapping[str, float]]:
    return lambda: {grade.class_id: float(grade.grade) for grade in facets.grades(source)}


def _dissimilarity() -> Mapping[str, float]:
    return {row.class_id: row.oodness for row in facets.oodness()}


def _chosen(classes: Classes) -> list[str]:
    return [item.class_id for item in decisions.load(classes.table) if item.decision == classes.decision]


class _Parts:
    """Collects the parts of a config's two splits; `published` is the name of the authors' lists of them."""

    def __init__(self, config: str, published: str = "") -> None:
        self.config = config
        self.published = published
        self.splits: dict[str, list[Split]] = {"validation": [], "test": []}

    def add(
        self,
        part: str,
        role: Role,
        source: Source,
        partition: str,
        classes: Classes | Every,
        takes: Callable[[str], tuple[Take, Take]],
        counts: tuple[Count, Count],
        oodness: Oodness,
    ) -> None:
        """Add a part to both; `takes` gets the key of the validation part, which the test part leaves its images."""
        first = f"{self.config}/validation.{part}"
        for (name, parts), take, count in zip(self.splits.items(), takes(first), counts, strict=True):
            parts.append(
                Split(
                    name=name,
                    role=role,
                    source=source,
                    partitions=(partition,),
                    classes=classes,
                    take=take,
                    count=count,
                    published=self.published.format({"validation": "val"}.get(name, name)),
                    part=part,
                    labelled=source.key == PLACES365.key,
                    oodness=oodness,
                    ranked_as=RANKED_AS,
                )
            )

    def done(self, description: str) -> Config:
        splits = (*self.splits["validation"], *self.splits["test"])
        return Config(name=self.config, labels=AllOf(PLACES365), description=description, splits=splits)


def _halves(first: str) -> tuple[Take, Take]:
    return Half(), Rest(first)


def _per_class(images: int) -> Callable[[str], tuple[Take, Take]]:
    return lambda first: (PerClass(images, half=True), PerClass(images, apart_from=first))


def _total(images: int) -> Callable[[str], tuple[Take, Take]]:
    return lambda first: (Total(images, half=True), Total(images, apart_from=first))


def _both(rows: int, paper: int, classes: int, why: str = "") -> tuple[Count, Count]:
    return (Count(rows, paper, why, classes=classes),) * 2


def _places(parts: _Parts) -> None:
    # 100 images a class, of which each split has 50.
    counts = _both(18_250, 18_250, 365)
    known = Oodness(_constant(PLACES365, 0.0), 0.0)
    parts.add("places365", "in_distribution", PLACES365, "val", ALL_KNOWN, _halves, counts, known)


def _baseline() -> Config:
    # The authors publish lists of this one too; by what word they name SVHN is not known to us.
    parts = _Parts("facets-baseline")
    _places(parts)
    unknown = Oodness(_constant(SVHN_FULL, 1.0), 0.0)
    # 16,701 is half of the training images, and 1,549 brings both sides to 18,250.
    parts.add("svhn_train", "far_ood", SVHN_FULL, "train", DIGITS, _halves, _both(16_701, 16_701, 1), unknown)
    parts.add("svhn_test", "far_ood", SVHN_FULL, "test", DIGITS, _total(1_549), _both(1_549, 1_549, 1), unknown)
    return parts.done("Scenes against house numbers: the easiest of the seven.")


def _inter_dataset() -> Config:
    parts = _Parts("facets-inter-dataset", "inter_dataset_{}.txt")
    _places(parts)
    parts.add(
        "imagenet_train",
        "near_ood",
        IMAGENET,
        "train",
        Classes("facets-inter-dataset", UNKNOWN),
        _total(18_108),
        _both(18_108, 18_108, 968),
        Oodness(_constant(IMAGENET, 1.0), 0.0),
    )
    return parts.done("Scenes against ImageNet's classes, without those that have the name of a Places365 class.")


def _wordnet(table: str, known: int, rows: int) -> Config:
    """A WordNet config, in which the paper has `known` in-distribution classes and `rows` unknown rows a split."""
    parts = _Parts(table, f"wordnet_dataset_{{}}_{table.rpartition('-')[2]}.txt")
    _places(parts)
    measured = Oodness(_dissimilarity, facets.THRESHOLDS[table])
    ours = len(_chosen(Classes(table, KNOWN)))
    why = f"our synsets for Places365 put {ours} ImageNet classes within the threshold, the authors' {known}"
    parts.add(
        "imagenet_train_known",
        "in_distribution",
        IMAGENET,
        "train",
        Classes(table, KNOWN),
        _per_class(50),
        _both(50 * ours, 50 * known, known, why),
        measured,
    )
    parts.add(
        "imagenet_train",
        "near_ood",
        IMAGENET,
        "train",
        Classes(table, UNKNOWN),
        _total(rows),
        _both(rows, rows, 1_000 - known),
        measured,
    )
    return parts.done(
        "Scenes, and ImageNet's classes by their WordNet distance to the nearest Places365 class: known up to "
        f"{facets.THRESHOLDS[table]:.2f}."
    )


def _sun397_counts(classes: Classes, paper: int, of_classes: int, why: str) -> tuple[Count, Count]:
    per_class = SUN397.expected()["images"].per_class or {}
    images = [per_class[class_id] for class_id in _chosen(classes)]
    first = sum(round(count * 0.5) for count in images)
    rows = (first, sum(images) - first)
    left = "the paper's table has one number for both splits, which is the validation split's"
    return (
        Count(rows[0], paper, why, classes=of_classes),
        Count(rows[1], paper, f"{why}; {left}", classes=of_classes),
    )


def _graded(config: str, table: str, known: int, rows: tuple[int, int], train: int, description: str) -> Config:
    """T1 or T2.

    Args:
        config: its name.
        table: decisions about SUN397's classes.
        known: in-distribution classes of SUN397 in the paper.
        rows: known and unknown rows of SUN397 that the paper has in a split.
        train: unknown rows of ImageNet's training images in a split.
        description: what the config is.
    """
    parts = _Parts(config, f"facets_ood_{{}}_{config.rpartition('-')[2]}.txt")
    _places(parts)
    of_sun = Oodness(_grades("sun397"), facets.GRADE_LIMITS[table][1])
    of_imagenet = Oodness(_grades("imagenet"), facets.GRADE_LIMITS["facets-imagenet"][1])
    sun = Classes(table, KNOWN), Classes(table, UNKNOWN)
    imagenet = Classes("facets-imagenet", KNOWN), Classes("facets-imagenet", UNKNOWN)
    roles: tuple[Role, Role] = ("in_distribution", "near_ood")
    ours = len(_chosen(sun[0])), len(_chosen(imagenet[0]))
    why = f"the grades are ours: {ours[0]} SUN397 classes are known by them, by the authors' {known}"
    for part, role, classes, theirs, images in zip(
        ("sun397_known", "sun397"), roles, sun, (known, 397 - known), rows, strict=True
    ):
        counts = _sun397_counts(classes, images, theirs, why)
        parts.add(part, role, SUN397, "images", classes, _halves, counts, of_sun)
    why = f"the grades are ours: {ours[1]} ImageNet classes are known by them, by the authors' 356"
    for part, role, classes, theirs in zip(
        ("imagenet_val_known", "imagenet_val"), roles, imagenet, (356, 644), strict=True
    ):
        half = _VAL_IMAGES // 2
        counts = _both(half * len(_chosen(classes)), half * theirs, theirs, why)
        parts.add(part, role, IMAGENET, "val", classes, _halves, counts, of_imagenet)
    counts = _both(train, train, 644)
    parts.add("imagenet_train", "near_ood", IMAGENET, "train", imagenet[1], _total(train), counts, of_imagenet)
    return parts.done(description)


BENCHMARK = Benchmark(
    name="facets",
    title="FACETS out-of-distribution benchmark",
    version="1.0.0",
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
        _baseline(),
        _inter_dataset(),
        _wordnet("facets-wordnet-t40", 56, 21_332),
        _wordnet("facets-wordnet-t45", 90, 22_750),
        _wordnet("facets-wordnet-t50", 140, 25_560),
        _graded(
            "facets-t1",
            "facets-t1-sun397",
            319,
            (46_851, 7_530),
            50_232,
            "Scenes of two sources and objects, graded by hand (by us, not by the authors); SUN397's grades 0 and 1 "
            "count as known.",
        ),
        _graded(
            "facets-t2",
            "facets-t2-sun397",
            351,
            (49_827, 4_554),
            56_606,
            "The same with SUN397's grades 0, 1 and 2 as known; the grades are ours.",
        ),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    from builders.pipeline.command import run_command

    return run_command(BENCHMARK, argv)


if __name__ == "__main__":
    without_pandas()
    sys.exit(main())
