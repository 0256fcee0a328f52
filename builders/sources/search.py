"""Find each partition of a source in the folder that the user gave: layouts as functions, tried in order."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.errors import BuildError
from builders.sources.base import Expected, Piece
from builders.sources.folders import child_names

Finder = Callable[[Path, Path], Piece | None]
"""Takes the user's root and one home below it; returns the partition, or None where the layout is not there."""


@dataclass(frozen=True)
class Layout:
    """One accepted shape of one partition: what it looks like, for people, and the function that reads it."""

    partition: str
    looks_like: str
    find: Finder


def alike(
    partitions: Sequence[str], *shapes: tuple[str, Callable[[str, Path, Path], Piece | None]]
) -> tuple[Layout, ...]:
    """Declare layouts that every partition of a source may have.

    Args:
        partitions: their names, which stand for `{partition}` in the descriptions.
        shapes: in the order in which they are tried, what each looks like and the function that reads it, which takes
            the partition before what a `Finder` takes.
    """
    return tuple(
        Layout(partition, looks_like.format(partition=partition), functools.partial(find, partition))
        for partition in partitions
        for looks_like, find in shapes
    )


@dataclass(frozen=True)
class Search:
    """Everything a source's scan needs, so that all sources search and complain alike.

    `homes` are the folders, relative to the user's root, in which the layouts are looked for: the root itself first,
    then the names that archives unpack to.
    """

    key: str
    title: str
    homes: tuple[str, ...]
    layouts: tuple[Layout, ...]
    expected: Callable[[], Mapping[str, Expected]]

    @property
    def descriptions(self) -> tuple[str, ...]:
        """One line for each accepted layout."""
        return tuple(f"{layout.partition}: {layout.looks_like}" for layout in self.layouts)

    def scan(self, root: Path, partitions: Sequence[str]) -> list[Piece]:
        """Return one piece for each partition asked for; other partitions are not looked at.

        Raises:
            BuildError: a partition is not there, or what is there contradicts itself.
        """
        return [self._find(root, partition) for partition in partitions]

    def _find(self, root: Path, partition: str) -> Piece:
        layouts = [layout for layout in self.layouts if layout.partition == partition]
        if not layouts:
            raise ValueError(f"{self.key} has no partition {partition!r}")
        homes = [root / home for home in self.homes if (root / home).is_dir()]
        for home, layout in itertools.product(homes, layouts):
            piece = layout.find(root, home)
            if piece is not None:
                return piece
        raise self._missing(root, partition, homes, layouts)

    def _missing(self, root: Path, partition: str, homes: Sequence[Path], layouts: Sequence[Layout]) -> BuildError:
        names = child_names(root)
        there = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
        looked = ", ".join(str(home) for home in homes)
        accepted = " or ".join(layout.looks_like for layout in layouts)
        return BuildError(
            f"{self.title}: expected the partition {partition} ({self.expected()[partition].total:,} images) "
            f"as {accepted}, found only {there or 'an empty folder'} (looked in {looked}); "
            f"give the folder that holds it with --{self.key}."
        )
