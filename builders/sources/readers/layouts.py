"""Finds the partitions of a source in the user's folder, by trying its layouts in order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from builders.errors import NAMED, BuildError, more
from builders.sources.base import OtherDataError, PartitionIndex, Source
from builders.sources.readers import nesting
from builders.sources.readers.folders import child_names, escape_name, relative

Finder = Callable[[Path, Path], PartitionIndex | None]
"""Reads the partition from a folder below the user's root; returns None if the folder has not the layout."""


@dataclass(frozen=True)
class CopyLayout:
    """One accepted layout of one partition: a description for messages, and the function that reads it."""

    partition: str
    description: str
    find: Finder


def alike(
    partitions: Sequence[str], *shapes: tuple[str, Callable[[str, Path, Path], PartitionIndex | None]]
) -> tuple[CopyLayout, ...]:
    """Declare layouts that every partition of a source may have.

    Args:
        partitions: their names, which replace `{partition}` in the descriptions.
        shapes: description and function of each layout, in the order in which they are tried; the function takes the
            partition and then a `Finder`'s arguments.
    """
    return tuple(
        CopyLayout(partition, description.format(partition=partition), functools.partial(find, partition))
        for partition in partitions
        for description, find in shapes
    )


@dataclass(frozen=True)
class Search:
    """A search of the user's folder for a source's layouts, with the same rules and messages for all sources.

    The layouts are looked for in the user's folder and, if it has none of them, in the folders below. Within a folder
    the first layout that fits is used; a partition in two folders is refused.
    """

    layouts: tuple[CopyLayout, ...]

    @property
    def descriptions(self) -> tuple[str, ...]:
        """One line of description for each accepted layout."""
        return tuple(f"{layout.partition}: {layout.description}" for layout in self.layouts)

    def scan(self, source: Source, root: Path, partitions: Sequence[str]) -> list[PartitionIndex]:
        """Return one piece for each requested partition; other partitions are not looked for.

        Raises:
            BuildError: a partition is missing, is there twice, or contradicts itself.
        """
        return [self._find(source, root, partition) for partition in partitions]

    def _find(self, source: Source, root: Path, partition: str) -> PartitionIndex:
        layouts = [layout for layout in self.layouts if layout.partition == partition]
        if not layouts:
            raise ValueError(f"{source.key} has no partition {partition!r}")
        errors: list[OtherDataError] = []

        def read(home: Path) -> PartitionIndex | None:
            for layout in layouts:
                try:
                    piece = layout.find(root, home)
                except OtherDataError as error:
                    errors.append(error)
                    continue
                if piece is not None:
                    return piece
            return None

        result = nesting.search_below(root, read)
        if len(result.matches) > 1:
            places = " and ".join(f"{relative(home, root)} ({piece.layout})" for home, piece in result.matches[:2])
            raise BuildError(
                f"{source.title}: the partition {partition} is in more than one place of {root}: {places}. "
                f"Give one of them with --{source.key}."
            )
        if result.matches:
            return result.matches[0][1]
        raise errors[0] if errors else _missing(source, root, partition, layouts, result.skipped)


def _missing(
    source: Source, root: Path, partition: str, layouts: Sequence[CopyLayout], skipped: Sequence[str]
) -> BuildError:
    names = [escape_name(name) for name in child_names(root)]
    listing = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    descriptions = [layout.description for layout in layouts]
    unread = f"; not searched: {', '.join(skipped[:NAMED])}{more(skipped)}" if skipped else ""
    return BuildError(
        f"{source.title}: the partition {partition} ({source.expected()[partition].total:,} images) is not in {root}, "
        f"which holds {listing or 'nothing'}{unread}. Accepted layouts are {' or '.join(descriptions)}. "
        f"Give the folder that holds it with --{source.key}."
    )
