"""Quotas: how many and which of its candidates a split takes, and why the others are left out.

A quota is a value of a declaration. The rows that it takes of a complete source are computed (`expected`), so
benchmarks do not state them.

Tested by `tests/builders/declare/test_benchmark.py` and `tests/builders/plan/test_planner.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from taxonomy import lists

if TYPE_CHECKING:  # what only computes is imported where it does: a command's `--help` reads declarations alone
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from builders.sources.base import Source

    Int64 = npt.NDArray[np.int64]
    Integers = npt.NDArray[np.integer]

Sizes = Callable[[], Sequence[int]]
"""Gives the images of each class of a complete source; asked only where the result depends on them."""


class DeclarationError(ValueError):
    """A benchmark or source whose declaration cannot be built."""


@dataclass(frozen=True)
class Quota:
    """How many and which of its candidates a split takes; each kind of quota is a subclass."""

    parent = ""
    """Key of the split or part (`config/split`) that draws from the same images before; empty if none does."""

    rule = "image-not-drawn"
    """The rule by which an image of the split's classes is left out."""

    def expected(self, sizes: Sizes) -> int:
        """Return how many rows a complete source gives, if no other split draws before."""
        return sum(sizes())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the source's index that `named` reads; empty if it does not choose by columns."""
        return ()

    def named(self, columns: Mapping[str, pa.Array], codes: Integers, class_ids: Sequence[str]) -> Integers:
        """Return ascending positions of the candidates that may be taken, for quotas that choose by `columns`.

        `columns` are theirs by name, and `codes` the position of each one's class in `class_ids`.
        """
        raise NotImplementedError

    def shares(self, sizes: Int64) -> Int64 | None:
        """Return how many images of each class are taken, the first by keyed rank; None takes all.

        `sizes` counts the candidates, shape (partitions, classes). The result has the shape (classes,), or that of
        `sizes` where each partition has shares of its own.
        """
        return None

    def evidence(self, before: str) -> str:
        """Say why an image is left out; `before` names the splits that draw from the same images before, if any."""
        return "every image of the class is taken"


@dataclass(frozen=True)
class AllImages(Quota):
    """Every image of the classes in the partitions."""


@dataclass(frozen=True)
class Rest(Quota):
    """Every image of the same classes and partitions that no split before took: neither `parent` nor its parents."""

    parent: str
    rule = "in-other-split"

    def evidence(self, before: str) -> str:
        return f"drawn for {before}"


@dataclass(frozen=True)
class Half(Quota):
    """The first half of each class's images by keyed rank: `round(n * 0.5)` of n images, which rounds half to even."""

    def expected(self, sizes: Sizes) -> int:
        return sum(round(size * 0.5) for size in sizes())

    def shares(self, sizes: Int64) -> Int64:
        import numpy as np

        shares: Int64 = np.rint(sizes.sum(axis=0) * 0.5).astype(np.int64)
        return shares

    def evidence(self, before: str) -> str:
        return "keyed rank beyond half of the class's images"


@dataclass(frozen=True)
class Fixed(Quota):
    """A fixed number of images, which every complete source has; subclasses say which images."""

    images: int

    def expected(self, sizes: Sizes) -> int:
        return self.images


@dataclass(frozen=True)
class Ranked(Fixed):
    """A fixed number of images, the first by keyed rank; subclasses say how many of each class.

    With `half`, at most half of what there is. This matters only for a small source (the demo), in which no class may
    be missing from the split that takes the rest. `parent` names another split (`config/split`) of the same
    source, whose images are not taken.
    """

    half: bool = False
    parent: str = ""


@dataclass(frozen=True)
class PerClass(Ranked):
    """The first `images` of each class by keyed rank, or the whole class; with `half`, at most half of each class."""

    def expected(self, sizes: Sizes) -> int:
        # As many after another split: every complete source has enough.
        return sum(min(self.images, size // 2 if self.half else size) for size in sizes())

    def shares(self, sizes: Int64) -> Int64:
        import numpy as np

        of_class: Int64 = sizes.sum(axis=0)
        return np.minimum(self.images, of_class // 2 if self.half else of_class)

    def evidence(self, before: str) -> str:
        rank = f"keyed rank beyond the class's {self.images}" + " (or half of a class that is short)" * self.half
        return f"drawn for {before}, or {rank}" if before else rank


@dataclass(frozen=True)
class Total(Ranked):
    """`images` in total: partitions are used up in the given order, inside one in proportion to class size.

    With `half`, at most half of all images.
    """

    def expected(self, sizes: Sizes) -> int:
        return min(self.images, sum(sizes()) // 2) if self.half else self.images

    def shares(self, sizes: Int64) -> Int64:
        import numpy as np

        from builders.declare.ranking import largest_remainders

        total = int(sizes.sum())
        remaining = min(self.images, total // 2) if self.half else self.images
        shares = np.zeros_like(sizes)
        for partition, of_class in enumerate(sizes):
            shares[partition] = largest_remainders(min(remaining, int(of_class.sum())), of_class.tolist())
            remaining -= int(shares[partition].sum())
        return shares

    def evidence(self, before: str) -> str:
        share = f"keyed rank beyond the class's share of {self.images} images"
        return f"drawn for {before}, or {share}" if before else share


@dataclass(frozen=True)
class Originals(Fixed):
    """The originals of another source: every image from which it made an image of some of its partitions.

    The other source's index has the id of each image's original in a column `original_id`; the planner leaves the
    originals alone as candidates. A split with a generator that takes companions has one partition here, and the
    generator is given its image beside each original.
    """

    source: Source
    partitions: tuple[str, ...]

    def evidence(self, before: str) -> str:
        return f"{self.source.title} has no image made of it in {', '.join(self.partitions)}"


@dataclass(frozen=True)
class Listed(Fixed):
    """Exactly those images of a published list (`taxonomy.lists`) whose class the split has.

    With `by_name` the list has the names of files alone, so an image is found by the last part of its id.
    """

    list_name: str
    by_name: bool = False
    rule = "image-not-listed"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("source_id",)

    def named(self, columns: Mapping[str, pa.Array], codes: Integers, class_ids: Sequence[str]) -> Integers:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from builders.declare.ranking import names_of

        ids = names_of(columns["source_id"]) if self.by_name else columns["source_id"]
        listed = pc.is_in(ids, value_set=pa.array(lists.load_list(self.list_name), pa.string()))
        return np.flatnonzero(listed.to_numpy(zero_copy_only=False))

    def has(self, source_id: str) -> bool:
        """Whether the list has an image of the source."""
        return (source_id.rpartition("/")[2] if self.by_name else source_id) in lists.load_list(self.list_name)

    def evidence(self, before: str) -> str:
        return f"not in {lists.LISTS[self.list_name].published}"


@dataclass(frozen=True)
class Largest(Fixed):
    """The `images` with the largest values in the source's column `by`; values must be above 0.

    Of equal values the image with the lesser id goes first. With `evenly`, the classes have equal shares instead: a
    class that is smaller than its share gives all its images, the others share what is left, and where that does not
    divide, the most populated classes (of equal ones, the first by class id) give one image more.
    """

    by: str
    evenly: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return ("source_id", self.by)

    def named(self, columns: Mapping[str, pa.Array], codes: Integers, class_ids: Sequence[str]) -> Integers:
        import numpy as np
        import pyarrow as pa

        from builders.declare.ranking import even_shares, first_of_each

        values = columns[self.by].to_numpy(zero_copy_only=False).astype(np.float64)
        positive = np.flatnonzero(values > 0)
        ids = np.array(columns["source_id"].take(pa.array(positive)).to_pylist(), dtype=np.str_)
        best: Integers = positive[np.lexsort((ids, -values[positive]))]
        if self.evenly:
            sizes = np.bincount(codes[best], minlength=len(class_ids))
            shares = even_shares(self.images, sizes.tolist(), class_ids)
            best = first_of_each(codes, best, np.array(shares, np.int64))
        return np.sort(best[: self.images])

    def evidence(self, before: str) -> str:
        share = "the class's even share of " * self.evenly
        return f"not among {share}the {self.images:,} images with the greatest {self.by} above 0"
