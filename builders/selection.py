"""What a split draws from a source: classes, and a quota of their images.

A quota also says how many rows it gives of a complete source, so that no benchmark types these counts.

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
    """A draw of classes: the first `count` by keyed rank of the class id, of all or of each group of them.

    `key` is the `config/split` that keys the rank, so that splits which share a draw get the same classes. `rest`
    turns the draw around: its classes are those that the same draw without `rest` leaves.
    """

    count: int
    key: str
    of_each_group: bool = False
    rest: bool = False


@dataclass(frozen=True)
class Classes:
    """The classes a split draws from: those that a frozen table of `taxonomy.decisions` decides to be `decision`.

    With `draw`, some of them are drawn.
    """

    table: str
    decision: str
    draw: Draw | None = None

    def candidates(self) -> tuple[decisions.Decision, ...]:
        """The classes that the table decides so, before any of them are drawn."""
        return tuple(row for row in decisions.load(self.table) if row.decision == self.decision)

    def __len__(self) -> int:
        """Number of classes; where they are drawn, it does not depend on the seed."""
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
class ClassesOf:
    """All classes of a source in the owner's order, as the classes that `label` counts."""

    source: Source


@dataclass(frozen=True)
class AllImages:
    """Every image of the classes, in every partition named."""


@dataclass(frozen=True)
class PerClass:
    """The first `images` of each class by keyed rank.

    With `half`, never more than half of what a class has: that matters only for a source that is cut short (the demo),
    where a class must not vanish from the split that takes the rest. `apart_from` names another split (`config/split`)
    of the same source, whose images are left to it.
    """

    images: int
    half: bool = False
    apart_from: str = ""


@dataclass(frozen=True)
class Half:
    """The first half of each class's images by keyed rank: Python's `round(n * 0.5)` of n, which rounds to even."""


@dataclass(frozen=True)
class Rest:
    """Every image of the same classes and partitions that the split `of` (`config/split`) leaves."""

    of: str


@dataclass(frozen=True)
class Total:
    """`images` in all. Partitions are used up in the order named; inside one, quotas follow the classes' sizes.

    With `half`, never more than half of what there is, for the reason that `PerClass` has; `apart_from` as there.
    """

    images: int
    half: bool = False
    apart_from: str = ""


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


Quota = AllImages | Half | Largest | PerClass | Rest | Total


def parent(quota: Quota) -> str:
    """Key of the split or part that draws before this one from the same images; empty if there is none."""
    if isinstance(quota, Rest):
        return quota.of
    return quota.apart_from if isinstance(quota, PerClass | Total) else ""


def after(quota: Quota, key: str) -> Quota:
    """An equal quota of the images that the split `key` leaves, which has `quota` itself.

    Raises:
        DeclarationError: it leaves none, or is drawn after another split itself.
    """
    if isinstance(quota, Half):
        return Rest(key)
    if isinstance(quota, PerClass | Total) and not quota.apart_from:
        return dataclasses.replace(quota, half=False, apart_from=key)
    raise DeclarationError(f"No split can have an equal quota after {key}, whose quota is {quota}.")


def class_sizes(source: Source, partitions: Sequence[str], classes: Classes | AllClasses) -> list[int]:
    """Images of each class that is drawn from, in a complete source, by its owner's counts.

    Where these are not known and all classes are drawn from, the total counts as one class.

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
    ids = list(source.classes()) if isinstance(classes, AllClasses) else [c.class_id for c in classes.candidates()]
    if unknown := next((name for name in ids if any(name not in per_class for per_class in known)), None):
        raise DeclarationError(f"{source.title} has no class {unknown}.")
    sizes = [sum(per_class[name] for per_class in known) for name in ids]
    if isinstance(classes, AllClasses) or classes.draw is None:
        return sizes
    if len(set(sizes)) > 1:
        raise DeclarationError(
            f"Classes of {source.title} that are drawn differ in size, so their images vary by seed."
        )
    return sizes[: len(classes)]


def images_of(quota: Quota, sizes: Sequence[int]) -> int:
    """How many images a quota takes of classes with so many images each, before any other split took some.

    `PerClass` and `Total` that are drawn after another split find enough in every complete source.
    """
    if isinstance(quota, Largest):
        return min(quota.images, sum(sizes))
    if isinstance(quota, Total):
        return min(quota.images, sum(sizes) // 2 if quota.half else sum(sizes))
    if isinstance(quota, PerClass):
        return sum(min(quota.images, size // 2 if quota.half else size) for size in sizes)
    return sum(round(size * 0.5) for size in sizes) if isinstance(quota, Half) else sum(sizes)
