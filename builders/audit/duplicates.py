"""Finds duplicates in a release or between two: exact ones in all splits, near ones of training images.

Exact duplicates have equal content digests, and are searched for across all configs and benchmarks. Near-duplicates
(`builders.duplicates.search`) are searched for between the in-distribution training images of a benchmark and each of
its other splits. Images of other sizes are compared as thumbnails of 32 x 32 pixels.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from builders.audit.chart import HeatCell, heat_table
from builders.audit.record import Findings
from builders.duplicates.distance import SIDE, scaled
from builders.duplicates.exact import DIGEST, exact_pairs, searched_pairs
from builders.duplicates.search import THRESHOLD, Index, Pairs, find_pairs
from builders.executors.base import (
    ONE_CORE,
    Executor,
    Meter,
    Progress,
    Resources,
    once_per_worker,
)
from builders.release import images
from builders.release.duplicates import Pair, groups, is_known_and_unknown
from builders.release.entries import Manifest, SplitEntry, is_training
from builders.release.reader import RowGroup, read_index, row_groups, unreadable_file
from builders.storage.parquet import UNREADABLE
from unknown_detection.words import first_few, quantity

AGAINST = "against:"
"""Begins the names of splits of the other release."""

_MOST_NAMED = 6

_QUERIES = 1024
"""Queries of a task: a few seconds for 60,000 references."""


@dataclass(frozen=True)
class ReleaseSplit:
    """A split of a release: its folder, and its entry in the manifest."""

    root: Path
    entry: SplitEntry

    @property
    def index(self) -> Path:
        """The index file."""
        return self.root / self.entry.index.path


@dataclass(frozen=True)
class Duplicates:
    """The duplicates of one release or between two: pairs of rows with equal content, and near pairs of images.

    `splits` are by `config/split`, with `AGAINST` in front for splits of the other release. `searched` has the pairs
    of splits that were searched for near-duplicates, the training split first; splits `without_images` here were not.
    """

    splits: Mapping[str, ReleaseSplit]
    exact: tuple[Pair, ...]
    near: tuple[Pair, ...] = ()
    searched: tuple[tuple[str, str], ...] = ()
    without_images: tuple[str, ...] = ()

    def counts(self) -> dict[tuple[str, str], tuple[int, int, int]]:
        """Count for each two splits their exact pairs, near pairs, and pairs of a known and an unknown row; sorted."""
        exact, near = (Counter(pair.splits for pair in pairs) for pairs in (self.exact, self.near))
        mixed = Counter(pair.splits for pair in (*self.exact, *self.near) if is_known_and_unknown(pair))
        return {splits: (exact[splits], near[splits], mixed[splits]) for splits in sorted(exact.keys() | near.keys())}


def release_splits(root: Path, manifest: Manifest, prefix: str = "") -> dict[str, ReleaseSplit]:
    """Return the splits of a release by name; `prefix` begins each name."""
    return {f"{prefix}{key}": ReleaseSplit(root, entry) for key, entry in manifest.by_key().items()}


def searches(manifest: Manifest, other: Manifest | None = None) -> list[tuple[str, str]]:
    """Return the pairs of splits to search for near-duplicates: an in-distribution training split and another split.

    A release is compared with itself, or with `other`. Two training splits are one pair.
    """
    trains = [key for key, entry in manifest.by_key().items() if is_training(key, entry)]
    if other is None:
        candidates = [(train, key) for keys in groups(manifest) for train in trains if train in keys for key in keys]
    else:
        other_trains = [key for key, entry in other.by_key().items() if is_training(key, entry)]
        candidates = [(train, f"{AGAINST}{key}") for train in trains for key in other.by_key()]
        candidates += [(f"{AGAINST}{train}", key) for train in other_trains for key in manifest.by_key()]
    split_pairs: list[tuple[str, str]] = []
    for train, key in candidates:
        if train != key and (train, key) not in split_pairs and (key, train) not in split_pairs:
            split_pairs.append((train, key))
    return split_pairs


def exact(splits: Mapping[str, ReleaseSplit]) -> list[Pair]:
    """Find rows with equal content digests; between two releases only pairs of both."""
    for split in splits.values():
        for name in ("id", "role", "class_id", DIGEST):  # one after the other, for the memory of a large index
            read_index(split.root, split.entry, [name])
    try:
        pairs = exact_pairs({name: split.index for name, split in splits.items()})
    except UNREADABLE as error:
        raise unreadable_file(next(iter(splits.values())).root, error) from error
    if not any(name.startswith(AGAINST) for name in splits):
        return pairs
    return [pair for pair in pairs if pair.split.startswith(AGAINST) != pair.other_split.startswith(AGAINST)]


@dataclass(frozen=True)
class ThumbnailTask:
    """A `builders.executors.base.Task` that writes the thumbnails of one row group into a .npy file that all share."""

    group: RowGroup
    array: Path
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> None:
        """Read, decode, shrink and write the images."""
        array = np.lib.format.open_memmap(self.array, "r+")
        thumbnails = self.group.each(lambda data: (len(data), scaled(images.decode(data))))
        for number, (size, thumbnail) in enumerate(thumbnails, self.group.first):
            array[number] = thumbnail
            progress(1, size)
        array.flush()


@dataclass(frozen=True)
class _PreparedIndex:
    """Makes the index of the references in a .npy file, once in each worker."""

    references: Path

    def __call__(self) -> Index:
        return Index(np.lib.format.open_memmap(self.references, "r"))


@dataclass(frozen=True)
class SearchTask:
    """A `builders.executors.base.Task` that searches duplicates of the images `start` to `stop` of a .npy file."""

    queries: Path
    references: Path
    start: int
    stop: int
    resources: ClassVar[Resources] = ONE_CORE

    def run(self, progress: Progress) -> Pairs:
        """Find the pairs; the query numbers are positions in the entire file."""
        # Each worker has one core: threads of the matrix product would wait for each other.
        with threadpool_limits(1, user_api="blas"):
            index = once_per_worker(_PreparedIndex(self.references))
            queries = np.lib.format.open_memmap(self.queries, "r")[self.start : self.stop]
            pairs = find_pairs(np.asarray(queries), index, advance=lambda count: progress(count, 0))
        return Pairs(pairs.queries + self.start, pairs.references, pairs.distances)


def find_near(
    duplicates: Duplicates, split_pairs: Sequence[tuple[str, str]], scratch: Path, executor: Executor, meter: Meter
) -> Duplicates:
    """Search some pairs of splits (`searches`) for near-duplicates, and add them to the duplicates.

    `scratch` is an empty folder for 3 KB an image of the splits.
    """
    by_name = duplicates.splits
    searched = [pair for pair in split_pairs if all(by_name[name].entry.data for name in pair)]
    without_images = sorted({name for pair in split_pairs for name in pair if not by_name[name].entry.data})
    files: dict[str, Path] = {}
    thumbnails: list[ThumbnailTask] = []
    for name in dict.fromkeys(name for pair in searched for name in pair):
        split, files[name] = by_name[name], scratch / f"{len(files)}.npy"
        np.lib.format.open_memmap(files[name], "w+", np.uint8, (split.entry.rows, SIDE, SIDE, 3)).flush()
        groups_of = row_groups(split.root, name.removeprefix(AGAINST), split.entry, np.arange(split.entry.rows))
        thumbnails += [ThumbnailTask(group, files[name]) for group in groups_of]
    if thumbnails:
        with meter.step("reading images", sum(by_name[name].entry.rows for name in files)) as advance:
            executor.run(thumbnails, advance)
    near: list[Pair] = []
    with meter.step("comparing with training images", sum(by_name[key].entry.rows for _, key in searched)) as advance:
        for train, key in searched:
            rows = by_name[key].entry.rows
            starts = range(0, rows, _QUERIES)
            tasks = [SearchTask(files[key], files[train], start, min(start + _QUERIES, rows)) for start in starts]
            parts = [(part.queries, part.references, part.distances) for part in executor.run(tasks, advance)]
            if parts:
                pairs = Pairs(*map(np.concatenate, zip(*parts, strict=True)))
                near += searched_pairs(pairs, (key, by_name[key].index), (train, by_name[train].index))
    return dataclasses.replace(
        duplicates, near=tuple(near), searched=tuple(searched), without_images=tuple(without_images)
    )


def findings(duplicates: Duplicates) -> Findings:
    """Return the table, chart and summary of a release's duplicates."""
    kinds = (("exact", duplicates.exact), ("near", duplicates.near))
    lines = []
    for (split, other_split), numbers in duplicates.counts().items():
        rows = min(duplicates.splits[split].entry.rows, duplicates.splits[other_split].entry.rows)
        cells = [HeatCell(f"{number:,}", number / rows if rows else 0.0) for number in numbers]
        lines.append((split if split == other_split else f"{split} and {other_split}", cells))
    return Findings(
        key="duplicates",
        summary=duplicates_summary(duplicates),
        splits=tuple(duplicates.splits),
        columns=("kind", "distance", *Pair._fields[:-1]),
        rows=[
            (kind, f"{pair.distance:.4f}", *pair[:-1])
            for kind, pairs in kinds
            for pair in sorted(pairs, key=lambda pair: (pair.distance, pair.place))
        ],
        picture=heat_table(
            "Pairs of rows with the same picture" if lines else "No two rows with the same picture were found",
            ["exact", "near", "known and unknown"],
            lines,
            "Colour: the number of pairs as a share of the smaller split's rows, from 0 (white) to 1 (red).",
        ),
    )


def duplicates_summary(duplicates: Duplicates) -> str:
    """Summarise the duplicates in sentences for the card."""
    exact, near = (quantity(len(pairs), "pair") for pairs in (duplicates.exact, duplicates.near))
    text = f"Duplicates: {exact} with equal content among {len(duplicates.splits):,} splits"
    if duplicates.searched:
        trains = " and ".join(dict.fromkeys(f"`{train}`" for train, _ in duplicates.searched))
        others = f"{len({key for _, key in duplicates.searched}):,} other splits"
        text += f", and {near} of nearly equal images (distance at most {THRESHOLD}) between {trains} and {others}"
    conflicting = sum(map(is_known_and_unknown, (*duplicates.exact, *duplicates.near)))
    text += f"; {conflicting:,} of a known and an unknown row." if duplicates.exact or duplicates.near else "."
    if not duplicates.searched:
        text += " Near-duplicates were not searched for."
    if duplicates.without_images:
        names = first_few([f"`{name}`" for name in duplicates.without_images], _MOST_NAMED)
        text += f" Not searched, since there are no images here: {names}."
    return text
