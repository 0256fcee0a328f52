"""Contact sheets of a release: the first images of every split, or images above their duplicates.

Tested by `tests/builders/commands/test_audit.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from builders.audit.record import Findings
from builders.card.grid import Stack, Strip, grid
from builders.card.pictures import RowPicture, first_rows, read_pictures
from builders.card.words import ROLE_NAMES
from builders.errors import BuildError
from builders.release.duplicates import Pair, read_pairs
from builders.release.entries import Manifest
from builders.release.layout import Layout
from builders.release.reader import read_index
from builders.release.schema import ROLES
from builders.release.split_entries import SplitEntry
from unknown_detection.words import quantity

_LOCAL = "The picture shows images of the sources, so it is not published."
_FRAMED = "Framed images are unknown: their classes are not among the in-distribution ones."
_SAMPLE = "Each row shows the first images of its split, which is a random sample, sorted by class."


def contact_sheet(root: Path, manifest: Manifest, config: str, splits: Sequence[str], count: int) -> Findings:
    """Draw the first images of some splits of a config, by role; rows stand in keyed order, so they are random.

    Args:
        root: the release folder.
        manifest: its manifest.
        config: the config.
        splits: names of its splits.
        count: most images of each role in a split.

    Raises:
        BuildError: a split has no images here, or a file cannot be read.
    """
    blocks: dict[tuple[int, str], list[RowPicture]] = {}
    sizes: dict[tuple[int, str], int] = {}
    entries = manifest.configs[config].splits
    for name in sorted(splits):
        index = read_index(root, entries[name], ["role"])
        sizes |= {(row["values"], name): row["counts"] for row in index["role"].value_counts().to_pylist()}
        numbers = np.sort(np.concatenate([np.zeros(0, np.int64), *first_rows(index, count).values()]))
        for picture in read_pictures(root, f"{config}/{name}", entries[name], numbers):
            blocks.setdefault((ROLES.index(picture.role), name), []).append(picture)
    rows = [
        Strip(
            f"{name}: {ROLE_NAMES[ROLES[role]]}, {len(pictures):,} of {sizes[role, name]:,} images",
            tuple(Stack((picture.shown,)) for picture in sorted(pictures, key=_by_class)),
        )
        for (role, name), pictures in sorted(blocks.items())
    ]
    drawn = [
        (f"{config}/{name}", picture.row, picture.id) for (_, name), pictures in blocks.items() for picture in pictures
    ]
    return Findings(
        key=f"{config}/sheet",
        summary=f"Contact sheet of `{config}`: the first rows of {quantity(len(splits), 'split')}, "
        f"{quantity(len(drawn), 'image')} in all. {_LOCAL}",
        splits=tuple(f"{config}/{name}" for name in sorted(splits)),
        columns=("split", "row", "id"),
        rows=sorted(drawn),
        picture=grid(rows, f"{_SAMPLE} {_FRAMED}"),
    )


def _by_class(picture: RowPicture) -> tuple[str, int]:
    return picture.class_name.casefold(), picture.row


def pairs_sheet(root: Path, manifest: Manifest, key: str, count: int) -> Findings:
    """Draw images of a split above their nearest duplicates by the release's table, the least similar pairs first.

    Args:
        root: the release folder.
        manifest: its manifest.
        key: the split (`config/split`).
        count: most pairs.

    Raises:
        BuildError: the split has no duplicates, the release has no table of them, or a file cannot be read.
    """
    entries = manifest.by_key()
    nearest = _nearest(_table(root, manifest), key)
    if not nearest:
        raise BuildError(f"{key} has no duplicates in the table of {root}. Choose another split with --splits.")
    drawn = sorted(nearest.items(), key=lambda item: (-item[1][0], item[0]))[:count]
    ids_of: dict[str, set[str]] = {key: {row for row, _ in drawn}}
    for _, (_, other_split, other_id) in drawn:
        ids_of.setdefault(other_split, set()).add(other_id)
    pictures = {name: _by_id(root, name, entries[name], ids) for name, ids in ids_of.items()}
    config, _, split = key.partition("/")
    return Findings(
        key=f"{config}/pairs_{split}",
        summary=f"Pairs of `{key}`: {len(drawn):,} of its {len(nearest):,} images with a duplicate in the table of "
        f"duplicates, each with the nearest; the least similar pairs are drawn first. {_LOCAL}",
        splits=tuple(sorted(ids_of)),
        columns=("split", "id", "distance", "other_split", "other_id"),
        rows=[(key, row, f"{distance:.4f}", *other) for row, (distance, *other) in drawn],
        picture=grid(_pair_rows(key, drawn, pictures), f"Distance 0: equal pixels or equal bytes. {_FRAMED}"),
    )


_Nearest = tuple[str, tuple[float, str, str]]
"""The id of a row, and its nearest duplicate: distance, split and id."""


def _pair_rows(key: str, pairs: Sequence[_Nearest], pictures: Mapping[str, Mapping[str, RowPicture]]) -> list[Strip]:
    """Return a row for each other split; the splits with the least similar pairs come first."""
    by_split: dict[str, list[Stack]] = {}
    for row, (distance, other_split, other_id) in pairs:
        images = (pictures[key][row].shown, pictures[other_split][other_id].shown)
        by_split.setdefault(other_split, []).append(Stack(images, f"distance {distance:.3f}"))
    return [
        Strip(f"{key}: above its duplicates in {'the same split' if name == key else name}", tuple(columns))
        for name, columns in by_split.items()
    ]


def _nearest(pairs: Iterable[Pair], key: str) -> dict[str, tuple[float, str, str]]:
    """Return the nearest duplicate of each row of a split, by the row's id: distance, split and id."""
    nearest: dict[str, tuple[float, str, str]] = {}
    for pair in pairs:
        for row_split, row, partner in (
            (pair.split, pair.id, (pair.distance, pair.other_split, pair.other_id)),
            (pair.other_split, pair.other_id, (pair.distance, pair.split, pair.id)),
        ):
            if row_split == key:
                nearest[row] = min(partner, nearest.get(row, partner))
    return nearest


def with_duplicates(root: Path, manifest: Manifest) -> set[str]:
    """Return the splits (`config/split`) that have rows in the table of duplicates.

    Raises:
        BuildError: the release has no such table, or it cannot be read.
    """
    return {split for pair in _table(root, manifest) for split in (pair.split, pair.other_split)}


def _table(root: Path, manifest: Manifest) -> list[Pair]:
    if manifest.duplicates is None:
        raise BuildError(f"{root} has no table of duplicates: an earlier version built it. Build it again.")
    return read_pairs(Layout(root).duplicates)


def _by_id(root: Path, key: str, split: SplitEntry, wanted_ids: set[str]) -> dict[str, RowPicture]:
    ids = read_index(root, split, ["id"])["id"].to_pylist()
    rows = np.array([row for row, name in enumerate(ids) if name in wanted_ids], np.int64)
    return {image.id: image for image in read_pictures(root, key, split, rows)}
