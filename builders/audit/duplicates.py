"""Finds duplicates in a finished release, or between two: exact ones of all splits, and near ones of training images.

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

import pyarrow as pa
from PIL import Image

from builders.audit.chart import HeatCell, heat_table
from builders.audit.record import Findings
from builders.audit.thumbnails import write_thumbnails
from builders.duplicates.exact import DIGEST, exact_pairs, near_pairs
from builders.duplicates.search import THRESHOLD
from builders.duplicates.search_tasks import find_in_files
from builders.executors.base import Executor, Meter
from builders.release.duplicates import Pair, groups, is_known_and_unknown
from builders.release.entries import Manifest
from builders.release.reader import read_index, unreadable_file
from builders.release.split_entries import SplitEntry, is_training
from unknown_detection.words import quantity

KEY = "duplicates"

AGAINST = "against:"
"""Begins the names of splits of the other release."""

_MOST_NAMED = 6


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
    """Duplicates of a release, or of two.

    Attributes:
        parts: the compared splits by name, which is `config/split`, after `AGAINST` in the other release.
        exact: pairs of rows with equal content.
        near: pairs of rows with other content, whose distance is at most `THRESHOLD`.
        searched: pairs of splits that were searched for near-duplicates, the training split first.
        without_images: splits that would have been searched but have no images here.
    """

    parts: Mapping[str, ReleaseSplit]
    exact: tuple[Pair, ...]
    near: tuple[Pair, ...]
    searched: tuple[tuple[str, str], ...] = ()
    without_images: tuple[str, ...] = ()


def release_splits(root: Path, manifest: Manifest, before: str = "") -> dict[str, ReleaseSplit]:
    """The splits of a release by name."""
    return {f"{before}{key}": ReleaseSplit(root, entry) for key, entry in manifest.by_key().items()}


def searches(mine: Manifest, other: Manifest | None = None) -> list[tuple[str, str]]:
    """The pairs of splits to search for near-duplicates: in-distribution training images, and other images.

    Args:
        mine: a release's manifest.
        other: that of another one, to which it is compared instead of to itself.

    Returns:
        Names of splits; two training splits are one pair.
    """
    ours = [key for key, entry in mine.by_key().items() if is_training(key, entry)]
    if other is None:
        wanted = [(train, key) for keys in groups(mine) for train in ours if train in keys for key in keys]
    else:
        theirs = [key for key, entry in other.by_key().items() if is_training(key, entry)]
        wanted = [(train, f"{AGAINST}{key}") for train in ours for key in other.by_key()]
        wanted += [(f"{AGAINST}{train}", key) for train in theirs for key in mine.by_key()]
    found: list[tuple[str, str]] = []
    for train, key in wanted:
        if train != key and (train, key) not in found and (key, train) not in found:
            found.append((train, key))
    return found


def exact(parts: Mapping[str, ReleaseSplit]) -> list[Pair]:
    """Find rows with equal content digests; between two releases only pairs of both.

    Raises:
        BuildError: an index cannot be read.
    """
    for part in parts.values():
        for name in ("id", "role", "class_id", DIGEST):  # one after the other, for the memory of a large index
            read_index(part.root, part.entry, [name])
    try:
        pairs = exact_pairs({name: part.index for name, part in parts.items()})
    except (OSError, pa.ArrowException) as error:
        raise unreadable_file(next(iter(parts.values())).root, error) from error
    two = any(name.startswith(AGAINST) for name in parts)
    return [pair for pair in pairs if not two or _is_between(pair)]


def find_near(
    found: Duplicates, wanted: Sequence[tuple[str, str]], scratch: Path, executor: Executor, meter: Meter
) -> Duplicates:
    """Add the near-duplicates of some pairs of splits.

    Args:
        found: what was found by digests.
        wanted: the pairs of splits, from `searches`.
        scratch: an empty folder for 3 KB an image of the splits.
        executor: runs the tasks.
        meter: shows progress.

    Raises:
        BuildError: a shard cannot be read, or an image does not decode.
    """
    parts = found.parts
    searched = [both for both in wanted if all(parts[name].entry.data for name in both)]
    lacking = sorted({name for both in wanted for name in both if not parts[name].entry.data})
    names = list(dict.fromkeys(name for both in searched for name in both))
    splits = [(parts[name].root, name.removeprefix(AGAINST), parts[name].entry) for name in names]
    files = dict(zip(names, write_thumbnails(splits, scratch, executor, meter), strict=True)) if names else {}
    meter.step("comparing with training images", sum(parts[key].entry.rows for _, key in searched))
    near: list[Pair] = []
    for train, key in searched:
        pairs = find_in_files(files[key], files[train], executor, meter)
        near += near_pairs(pairs, (key, parts[key].index), (train, parts[train].index))
    return dataclasses.replace(found, near=tuple(near), searched=tuple(searched), without_images=tuple(lacking))


def findings(found: Duplicates) -> Findings:
    """The table, chart and summary of a release's duplicates."""
    return Findings(
        key=KEY,
        summary=duplicates_summary(found),
        splits=tuple(found.parts),
        columns=("kind", "distance", *Pair._fields[:-1]),
        rows=table_rows(found),
        picture=_chart(found),
    )


def table_rows(found: Duplicates) -> list[tuple[str | float, ...]]:
    """The rows of the table, sorted: the kind, the distance and both sides of each pair."""
    kinds = (("exact", found.exact), ("near", found.near))
    return [
        (kind, f"{pair.distance:.4f}", *pair[:-1])
        for kind, pairs in kinds
        for pair in sorted(pairs, key=lambda pair: (pair.distance, pair.place))
    ]


def counts(found: Duplicates) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Exact pairs, near pairs, and those of a known and an unknown row, of every two splits that have any, sorted."""
    exact, near, torn = (
        Counter(pair.splits for pair in pairs)
        for pairs in (found.exact, found.near, filter(is_known_and_unknown, (*found.exact, *found.near)))
    )
    return {splits: (exact[splits], near[splits], torn[splits]) for splits in sorted(exact.keys() | near.keys())}


def duplicates_summary(found: Duplicates) -> str:
    """Summarise the duplicates in sentences for the card."""
    torn = sum(map(is_known_and_unknown, (*found.exact, *found.near)))
    text = f"Duplicates: {_pairs(found.exact)} with equal content among {len(found.parts):,} splits"
    if found.searched:
        trains = list(dict.fromkeys(train for train, _ in found.searched))
        text += (
            f", and {_pairs(found.near)} of nearly equal images (distance at most {THRESHOLD}) between "
            f"{' and '.join(f'`{train}`' for train in trains)} and {len({key for _, key in found.searched}):,} other "
            "splits"
        )
    text += f"; {torn:,} of a known and an unknown row." if found.exact or found.near else "."
    if not found.searched:
        text += " Near-duplicates were not searched for."
    if found.without_images:
        named = ", ".join(f"`{name}`" for name in found.without_images[:_MOST_NAMED])
        more = len(found.without_images) - _MOST_NAMED
        others = f" and {more:,} more" if more > 0 else ""
        text += f" Not searched, since there are no images here: {named}{others}."
    return text


def _pairs(pairs: Sequence[Pair]) -> str:
    return quantity(len(pairs), "pair")


def _is_between(pair: Pair) -> bool:
    """Whether a pair has one row of each release."""
    return pair.split.startswith(AGAINST) != pair.other_split.startswith(AGAINST)


def _chart(found: Duplicates) -> Image.Image:
    lines = []
    for (one, other), (exact, near, torn) in counts(found).items():
        rows = min(found.parts[one].entry.rows, found.parts[other].entry.rows)
        cells = [HeatCell(f"{number:,}", number / rows if rows else 0.0) for number in (exact, near, torn)]
        lines.append((one if one == other else f"{one} and {other}", cells))
    return heat_table(
        "Pairs of rows with the same picture" if lines else "No two rows with the same picture were found",
        ["exact", "near", "known and unknown"],
        lines,
        "Colour: the number of pairs as a share of the smaller split's rows, from 0 (white) to 1 (red).",
    )
