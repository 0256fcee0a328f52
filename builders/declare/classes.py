"""Declarations of the classes that a split draws from, and that a config's labels count.

Tested by `tests/builders/declare/test_benchmark.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from builders.declare.quotas import DeclarationError

if TYPE_CHECKING:
    from builders.sources.base import Source
    from taxonomy.decisions import Decision


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

    def candidates(self) -> tuple[Decision, ...]:
        """The classes with this decision, before the draw."""
        from taxonomy import decisions  # which a command's `--help` does without

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


ChosenClasses = AllClasses | Classes | FirstClasses


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
