"""Contact sheets of a release: the first images of every split, or images above their duplicates.

Tested by `tests/builders/commands/test_audit.py`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
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
from unknown_detection.words import quantity

_LOCAL = "The picture shows images of the sources, so it is not published."
_FRAMED = "Framed images are unknown: their classes are not among the in-distribution ones."
_SAMPLE = "Each row shows the first images of its split, which is a random sample, sorted by class."


def contact_sheet(root: Path, manifest: Manifest, config: str, splits: Sequence[str], count: int) -> Findings:
    """Draw the first images of some splits of a config, at most `count` per role, sorted by role and class."""
    strips: dict[tuple[int, str], Strip] = {}
    drawn: list[tuple[str, int, str]] = []
    for name in sorted(splits):
        key, entry = f"{config}/{name}", manifest.configs[config].splits[name]
        roles = read_index(root, entry, ["role"])
        for role, numbers in first_rows(roles, count).items():
            code = ROLES.index(role)
            total = int(np.count_nonzero(roles["role"].to_numpy() == code))
            pictures = sorted(read_pictures(root, key, entry, numbers), key=lambda p: (p.class_name.casefold(), p.row))
            title = f"{name}: {ROLE_NAMES[role]}, {len(pictures):,} of {total:,} images"
            strips[code, name] = Strip(title, tuple(Stack((picture.shown,)) for picture in pictures))
            drawn += [(key, picture.row, picture.id) for picture in pictures]
    return Findings(
        key=f"{config}/sheet",
        summary=f"Contact sheet of `{config}`: the first rows of {quantity(len(splits), 'split')}, "
        f"{quantity(len(drawn), 'image')} in all. {_LOCAL}",
        splits=tuple(f"{config}/{name}" for name in sorted(splits)),
        columns=("split", "row", "id"),
        rows=sorted(drawn),
        picture=grid([strip for _, strip in sorted(strips.items(), key=lambda item: item[0])], f"{_SAMPLE} {_FRAMED}"),
    )


def listed_pairs(root: Path, manifest: Manifest) -> list[Pair]:
    """Read the table of duplicates of a release."""
    if manifest.duplicates is None:
        raise BuildError(f"{root} has no table of duplicates. Build it again.")
    return read_pairs(Layout(root).duplicates)


def pairs_sheet(root: Path, manifest: Manifest, pairs: Sequence[Pair], key: str, count: int) -> Findings:
    """Draw images of a split, each above its nearest duplicate: the `count` least similar pairs of a table."""
    nearest: dict[str, tuple[float, str, str]] = {}
    for pair in pairs:
        for side, other in itertools.permutations(pair.sides):
            if side.split == key:
                partner = (pair.distance, other.split, other.id)
                nearest[side.id] = min(partner, nearest.get(side.id, partner))
    if not nearest:
        raise BuildError(f"{key} has no duplicates in the table of {root}. Choose another split with --splits.")
    drawn = sorted(nearest.items(), key=lambda item: (-item[1][0], item[0]))[:count]
    ids_of: dict[str, set[str]] = {key: {row for row, _ in drawn}}
    for _, (_, other_split, other_id) in drawn:
        ids_of.setdefault(other_split, set()).add(other_id)
    pictures = {name: _by_id(root, manifest, name, ids) for name, ids in ids_of.items()}
    stacks: dict[str, list[Stack]] = defaultdict(list)  # the splits with the least similar pairs come first
    for row, (distance, other_split, other_id) in drawn:
        images = (pictures[key][row].shown, pictures[other_split][other_id].shown)
        stacks[other_split].append(Stack(images, f"distance {distance:.3f}"))
    strips = [
        Strip(f"{key}: above its duplicates in {'the same split' if name == key else name}", tuple(columns))
        for name, columns in stacks.items()
    ]
    config, _, split = key.partition("/")
    return Findings(
        key=f"{config}/pairs_{split}",
        summary=f"Pairs of `{key}`: {len(drawn):,} of its {len(nearest):,} images with a duplicate in the table of "
        f"duplicates, each with the nearest; the least similar pairs are drawn first. {_LOCAL}",
        splits=tuple(sorted(ids_of)),
        columns=("split", "id", "distance", "other_split", "other_id"),
        rows=[(key, row, f"{distance:.4f}", *other) for row, (distance, *other) in drawn],
        picture=grid(strips, f"Distance 0: equal pixels or equal bytes. {_FRAMED}"),
    )


def _by_id(root: Path, manifest: Manifest, key: str, ids: set[str]) -> dict[str, RowPicture]:
    entry = manifest.by_key()[key]
    names = read_index(root, entry, ["id"])["id"].to_pylist()
    rows = np.array([row for row, name in enumerate(names) if name in ids], np.int64)
    return {image.id: image for image in read_pictures(root, key, entry, rows)}
