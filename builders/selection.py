"""Declarations of the selection of a split: classes of a source, and a quota of their images.

The number of rows that a quota takes from a complete source is computed, so benchmarks do not state it.

Tested by `tests/builders/test_benchmark.py`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from builders.sources.base import Source
from taxonomy import decisions


class DeclarationError(ValueError):
    """A benchmark or a source is declared in a way that cannot be built."""


@dataclass(frozen=True)
class Draw:
    """A draw of classes: the first `count` by keyed rank of the class id, of all classes or of each group.

    `key` is the `config/split` that keys the rank, so that splits which share a draw get the same classes. `rest`
    inverts the draw: it selects the classes that the same draw without `rest` leaves.
    """

    count: int
    key: str
    of_each_group: bool = False
    rest: bool = False


@dataclass(frozen=True)
class Classes:
    """The classes with a given `decision` in a frozen table of `taxonomy.decisions`, or with `draw` some of them."""

    table: str
    decision: str
    draw: Draw | None = None

    def candidates(self) -> tuple[decisions.Decision, ...]:
        """The classes with this decision, before the draw."""
        return tuple(row for row in decisions.load(self.table) if row.decision == self.decision)

    def __len__(self) -> int:
        """Number of classes; it does not depend on the seed."""
        candidates = self.candidates()
        if self.draw is None:
            return len(candidates)
        groups = Counter(row.group if self.draw.of_each_group else "" for row in candidates)
        drawn = sum(min(size, self.draw.count) for size in groups.values())
        return len(candidates) - drawn if self.draw.rest else drawn


@dataclass(frozen=True)
class AllClasses:
    """All classes of the source, unfiltered; `why` explains why no rule applies."""

    why: str


@dataclass(frozen=True)
class FirstClasses:
    """The first `count` classes of the source by id: a demo makes images of these with its models."""

    count: int


@dataclass(frozen=True)
class ClassesOf:
    """All classes of a source in the owner's order, numbered by the column `label`."""

    source: Source


@dataclass(frozen=True)
class AllImages:
    """Every image of the classes in the partitions."""


@dataclass(frozen=True)
class PerClass:
    """The first `images` of each class by keyed rank.

    With `half`, at most half of a class's images. This matters only for a small source (the demo), in which no class
    may be missing from the split that takes the rest. `apart_from` names another split (`config/split`) of the same
    source, whose images are not taken.
    """

    images: int
    half: bool = False
    apart_from: str = ""


@dataclass(frozen=True)
class Half:
    """The first half of each class's images by keyed rank: Python's `round(n * 0.5)` of n, which rounds to even."""


@dataclass(frozen=True)
class Rest:
    """Every image of the same classes and partitions that the split `of` (`config/split`) and those before it left."""

    of: str


@dataclass(frozen=True)
class Total:
    """`images` in total. Partitions are used up in the given order; inside one, quotas are proportional to class size.

    With `half`, at most half of all images; `half` and `apart_from` are explained at `PerClass`.
    """

    images: int
    half: bool = False
    apart_from: str = ""


@dataclass(frozen=True)
class Originals:
    """Every image from which another source made the images of some of its partitions; complete, these are `images`.

    The other source's index has the id of each image's original in a column `original_id`. A split with a generator
    that takes companions has one partition here, and the generator is given its image beside each original.
    """

    of: Source
    partitions: tuple[str, ...]
    images: int


@dataclass(frozen=True)
class Largest:
    """The `images` with the largest values of the source's column `by`, of those with a value above 0.

    Of equal values the image with the lesser id goes first. With `evenly`, the classes have equal shares instead: a
    class that is smaller than its share gives all its images, the others share what is left, and where that does not
    divide, the most populated classes (of equal ones, the first by class id) give one image more.
    """

    images: int
    by: str
    evenly: bool = False


Quota = AllImages | Half | Largest | Originals | PerClass | Rest | Total


ChosenClasses = AllClasses | Classes | FirstClasses


def parent(quota: Quota) -> str:
    """Key of the split or part that draws before this one from the same images; empty if there is none."""
    if isinstance(quota, Rest):
        return quota.of
    return quota.apart_from if isinstance(quota, PerClass | Total) else ""


def after(quota: Quota, key: str) -> Quota:
    """An equal quota of the images that the split `key`, with the quota `quota`, leaves.

    Raises:
        DeclarationError: the split leaves none, or is drawn after another split itself.
    """
    if isinstance(quota, Half):
        return Rest(key)
    if isinstance(quota, PerClass | Total) and not quota.apart_from:
        return dataclasses.replace(quota, half=False, apart_from=key)
    raise DeclarationError(f"No split can have an equal quota after {key}, whose quota is {quota}.")


def class_sizes(source: Source, partitions: Sequence[str], classes: ChosenClasses) -> list[int]:
    """Number of images of each selected class in a complete source, by the owner's counts.

    If these are unknown and all classes are selected, the total counts as one class.

    Raises:
        DeclarationError: the owner's counts by class are not known, the source lacks a class, or the classes are drawn
            and differ in size, so that the seed would decide.
    """
    expected = [source.expected()[partition] for partition in partitions]
    known = [partition.per_class for partition in expected if partition.per_class is not None]
    if len(known) < len(expected):
        if isinstance(classes, AllClasses):
            return [sum(partition.total for partition in expected)]
        raise DeclarationError(f"{source.title} has no counts by class in {' or '.join(partitions)}.")
    if isinstance(classes, Classes):
        ids = [decided.class_id for decided in classes.candidates()]
    else:
        ids = sorted(source.classes())[: classes.count if isinstance(classes, FirstClasses) else None]
    if unknown := next((name for name in ids if any(name not in per_class for per_class in known)), None):
        raise DeclarationError(f"{source.title} has no class {unknown}.")
    sizes = [sum(per_class[name] for per_class in known) for name in ids]
    if not isinstance(classes, Classes) or classes.draw is None:
        return sizes
    if len(set(sizes)) > 1:
        raise DeclarationError(
            f"Drawn classes of {source.title} differ in size, so the number of images depends on the seed."
        )
    return sizes[: len(classes)]


def images_of(quota: Quota, sizes: Sequence[int]) -> int:
    """Number of images that a quota takes from classes of the given sizes, if no other split is drawn before.

    Those of `PerClass` and `Total` hold after another split too: every complete source has enough images.
    """
    if isinstance(quota, Originals):
        return quota.images
    if isinstance(quota, Largest):
        return min(quota.images, sum(sizes))
    if isinstance(quota, Total):
        return min(quota.images, sum(sizes) // 2 if quota.half else sum(sizes))
    if isinstance(quota, PerClass):
        return sum(min(quota.images, size // 2 if quota.half else size) for size in sizes)
    return sum(round(size * 0.5) for size in sizes) if isinstance(quota, Half) else sum(sizes)
