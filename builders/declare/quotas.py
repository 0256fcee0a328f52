"""Quotas: how many of its candidates a split takes, which ones, and why the others stay out.

A quota is a value of a declaration. The rows that it takes of a complete source are computed (`expected`), so
benchmarks do not state them.

Tested by `tests/builders/declare/test_benchmark.py` and `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:  # what only computes is imported where it does: a command's `--help` reads declarations alone
    import numpy as np
    import numpy.typing as npt

    from builders.sources.base import Source

Rows: TypeAlias = "npt.NDArray[np.int64]"


class DeclarationError(ValueError):
    """A benchmark or a source is declared in a way that cannot be built."""


class Candidates(Protocol):
    """The images that a split may take: ascending row numbers of one source's index."""

    @property
    def rows(self) -> Rows:
        """The row numbers."""

    @property
    def class_ids(self) -> npt.NDArray[np.str_]:
        """Ids of the source's classes."""

    @property
    def class_codes(self) -> npt.NDArray[np.integer]:
        """Position in `class_ids` of the class of every image of the source."""

    def sizes(self) -> npt.NDArray[np.int64]:
        """Images of each class, by its code."""

    def first(self, quotas: npt.NDArray[np.int64]) -> Rows:
        """The first images of each class by keyed rank, up to its quota; ascending rows."""

    def by_partition(self) -> Sequence[Candidates]:
        """The candidates of each of the split's partitions, in their declared order."""

    def values(self, column: str) -> npt.NDArray[np.float64]:
        """A column of the source's own numbers, of every image of the source."""

    def ids(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Source ids of some rows."""

    def listed(self, ids: Sequence[str], *, by_name: bool) -> Rows:
        """The candidates with some source ids, or with these as the last part of their ids; ascending rows."""


@dataclass(frozen=True)
class Quota:
    """How many of a split's candidates it takes, and which; each kind of quota is a subclass."""

    parent = ""
    """Key of the split or part (`config/split`) that draws from the same images before; empty if none does."""

    def after(self, key: str) -> Quota:
        """An equal quota of the images that the split `key`, which has this quota, leaves.

        Raises:
            DeclarationError: the split leaves none, or is drawn after another split itself.
        """
        raise DeclarationError(f"No split can have an equal quota after {key}, whose quota is {self}.")

    def expected(self, sizes: Callable[[], Sequence[int]]) -> int:
        """Rows that are taken of a complete source, if no other split is drawn before.

        Args:
            sizes: gives the images of each class; asked only where the result depends on them.
        """
        return sum(sizes())

    def take(self, candidates: Candidates) -> Rows:
        """The ascending rows that are taken."""
        return candidates.rows

    def reason(self, before: Sequence[str]) -> tuple[str, str]:
        """Rule and evidence for the images of a class that a split draws from but does not take.

        Args:
            before: keys of the splits that draw from the same images before it.
        """
        return ("image-not-drawn", "every image of the class is taken")


@dataclass(frozen=True)
class AllImages(Quota):
    """Every image of the classes in the partitions."""


@dataclass(frozen=True)
class Ranked(Quota):
    """A number of images, the first by keyed rank; how many are taken of each class a subclass says.

    With `half`, at most half of what there is. This matters only for a small source (the demo), in which no class may
    be missing from the split that takes the rest. `parent` names another split (`config/split`) of the same
    source, whose images are not taken.
    """

    images: int
    half: bool = False
    parent: str = ""

    def after(self, key: str) -> Quota:
        """The same number of images of those that the other split leaves."""
        return super().after(key) if self.parent else dataclasses.replace(self, half=False, parent=key)


@dataclass(frozen=True)
class PerClass(Ranked):
    """The first `images` of each class by keyed rank; with `half`, at most half of each class."""

    def expected(self, sizes: Callable[[], Sequence[int]]) -> int:
        """`images` of each class, or the whole class if it has fewer.

        As many after another split: every complete source has enough.
        """
        return sum(min(self.images, size // 2 if self.half else size) for size in sizes())

    def take(self, candidates: Candidates) -> Rows:
        """The first of each class."""
        import numpy as np

        sizes = candidates.sizes()
        return candidates.first(np.minimum(self.images, sizes // 2 if self.half else sizes))

    def reason(self, before: Sequence[str]) -> tuple[str, str]:
        """The image's keyed rank lies beyond the class's number."""
        rank = f"keyed rank beyond the class's {self.images}" + " (or half of a class that is short)" * self.half
        return ("image-not-drawn", _or_drawn_for(before) + rank)


@dataclass(frozen=True)
class Half(Quota):
    """The first half of each class's images by keyed rank: Python's `round(n * 0.5)` of n, which rounds to even."""

    def after(self, key: str) -> Quota:
        """The other half."""
        return Rest(key)

    def expected(self, sizes: Callable[[], Sequence[int]]) -> int:
        """Half of each class."""
        return sum(round(size * 0.5) for size in sizes())

    def take(self, candidates: Candidates) -> Rows:
        """The first half of each class."""
        import numpy as np

        return candidates.first(np.array([round(size * 0.5) for size in candidates.sizes().tolist()], dtype=np.int64))

    def reason(self, before: Sequence[str]) -> tuple[str, str]:
        """The image is in the second half of its class by keyed rank."""
        return ("image-not-drawn", "keyed rank beyond half of the class's images")


@dataclass(frozen=True)
class Rest(Quota):
    """Every image of the same classes and partitions that the split `parent` and those before it left."""

    parent: str

    def reason(self, before: Sequence[str]) -> tuple[str, str]:
        """Another split has the image."""
        return ("in-other-split", _drawn_for(before))


@dataclass(frozen=True)
class Total(Ranked):
    """`images` in total. Partitions are used up in the given order; inside one, quotas are proportional to class size.

    With `half`, at most half of all images.
    """

    def expected(self, sizes: Callable[[], Sequence[int]]) -> int:
        """`images`, which every complete source has; with `half` at most half of it."""
        return min(self.images, sum(sizes()) // 2) if self.half else self.images

    def take(self, candidates: Candidates) -> Rows:
        """The first of each class, by shares that are proportional to the classes' sizes."""
        import numpy as np

        from builders.declare.ranking import largest_remainders

        remaining = min(self.images, len(candidates.rows) // 2) if self.half else self.images
        chosen = [np.empty(0, np.int64)]
        for pool in candidates.by_partition():
            shares = largest_remainders(min(remaining, len(pool.rows)), pool.sizes().tolist())
            chosen.append(pool.first(np.array(shares, dtype=np.int64)))
            remaining -= len(chosen[-1])
        return np.sort(np.concatenate(chosen))

    def reason(self, before: Sequence[str]) -> tuple[str, str]:
        """The image's keyed rank lies beyond its class's share."""
        return (
            "image-not-drawn",
            f"{_or_drawn_for(before)}keyed rank beyond the class's share of {self.images} images",
        )


@dataclass(frozen=True)
class Originals(Quota):
    """Every image from which another source made the images of some of its partitions; complete, these are `images`.

    The other source's index has the id of each image's original in a column `original_id`; the planner leaves the
    originals alone as candidates. A split with a generator that takes companions has one partition here, and the
    generator is given its image beside each original.
    """

    of: Source
    partitions: tuple[str, ...]
    images: int

    def expected(self, sizes: Callable[[], Sequence[int]]) -> int:
        """`images`."""
        return self.images

    def reason(self, before: Sequence[str]) -> tuple[str, str]:
        """The other source has no image that was made of this one."""
        return ("image-not-drawn", f"{self.of.title} has no image made of it in {', '.join(self.partitions)}")


@dataclass(frozen=True)
class Listed(Quota):
    """Exactly the images of a published list (`taxonomy.lists`) that are of the split's classes; complete, `images`.

    With `by_name` the list has the names of files alone, so an image is found by the last part of its id.
    """

    of: str
    images: int
    by_name: bool = False

    def expected(self, sizes: Callable[[], Sequence[int]]) -> int:
        """`images`."""
        return self.images

    def take(self, candidates: Candidates) -> Rows:
        """The rows of listed images."""
        from taxonomy import lists

        return candidates.listed(list(lists.load_list(self.of)), by_name=self.by_name)

    def has(self, source_id: str) -> bool:
        """Whether the list has an image of the source."""
        from taxonomy import lists

        return (source_id.rpartition("/")[2] if self.by_name else source_id) in lists.load_list(self.of)

    def reason(self, before: Sequence[str]) -> tuple[str, str]:
        """The list does not have it."""
        from taxonomy import lists

        return ("image-not-listed", f"not in {lists.LISTS[self.of].published}")


@dataclass(frozen=True)
class Largest(Quota):
    """The `images` with the largest values of the source's column `by`, of those with a value above 0.

    Of equal values the image with the lesser id goes first. With `evenly`, the classes have equal shares instead: a
    class that is smaller than its share gives all its images, the others share what is left, and where that does not
    divide, the most populated classes (of equal ones, the first by class id) give one image more.
    """

    images: int
    by: str
    evenly: bool = False

    def expected(self, sizes: Callable[[], Sequence[int]]) -> int:
        """`images`: how many of a source's images have a value is not known before it is read."""
        return self.images

    def take(self, candidates: Candidates) -> Rows:
        """The rows of the largest values."""
        import numpy as np

        from builders.declare.ranking import even_shares, first_of_each

        values = candidates.values(self.by)
        rows = candidates.rows[values[candidates.rows] > 0]
        best = rows[np.lexsort((candidates.ids(rows), -values[rows]))]
        if self.evenly:
            sizes = np.bincount(candidates.class_codes[best], minlength=len(candidates.class_ids)).tolist()
            shares = even_shares(self.images, sizes, [str(class_id) for class_id in candidates.class_ids])
            best = first_of_each(candidates.class_codes, best, np.array(shares, np.int64))
        return np.sort(best[: self.images])

    def reason(self, before: Sequence[str]) -> tuple[str, str]:
        """Other images have greater values in the column."""
        share = "the class's even share of " * self.evenly
        greatest = f"not among {share}the {self.images:,} images with the greatest {self.by} above 0"
        return ("image-not-drawn", greatest)


def _drawn_for(before: Sequence[str]) -> str:
    return f"drawn for {' or '.join(before)}"


def _or_drawn_for(before: Sequence[str]) -> str:
    return f"{_drawn_for(before)}, or " if before else ""
