"""Reads what the page shows of each split: rows by class, and thumbnails of the first rows of each role.

Rows stand in the order of a keyed hash, so the first ones are a random sample. Tested by
`tests/builders/report/test_pictures.py` and `tests/builders/report/test_rows.py`.
"""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc

from builders.card.pictures import RowPicture, first_rows, read_pictures
from builders.errors import BuildError
from builders.release.entries import OPEN, Manifest, SplitEntry
from builders.release.reader import Rows, read_index
from builders.release.schema import ROLES, Role
from builders.sources.registry import declared_source

FIRST = 12
"""Rows of each role of a split that are looked at for pictures (ours: a line or two on a desktop)."""

BUDGET = 3_000_000
"""Bytes of all thumbnails of a page, as they are written into it."""

PictureChoice = Literal["all", "publishable", "none"]

_SIDE = 144
"""Pixels of a thumbnail's longer side: half as many again as it is shown with, for dense screens (ours)."""

_AS_IT_IS = 64
"""Images up to this size keep their pixels (CIFAR's have 32)."""

_QUALITY = 70
_TYPICAL = 6_000
"""Bytes that a photograph takes in the page as a thumbnail; measured on ILSVRC2012-like JPEGs: 4,000 to 7,000."""

_COLUMNS = ("source", "class_id", "class_name", "role")


class ClassRows(NamedTuple):
    """The number of rows of a class in a split, with the class's source and role there."""

    source: str
    class_id: str
    name: str
    role: Role
    rows: int


class SplitRows(NamedTuple):
    """A split (`config/split`): its rows by class, and the numbers of the first rows of each role."""

    key: str
    classes: tuple[ClassRows, ...]
    first: dict[Role, Rows]


@dataclass(frozen=True)
class Thumbnail:
    """A row's picture: a data: URI, its size in pixels, its class's name, and whether it has all pixels."""

    uri: str
    width: int
    height: int
    name: str
    exact: bool


def read_split_rows(root: Path, key: str, split: SplitEntry, pictured: Set[str]) -> SplitRows:
    """Read the index of a split; the first rows are taken of the `pictured` sources alone."""
    table = read_index(root, split, _COLUMNS)
    if unknown := sorted(set(pc.unique(table["source"]).to_pylist()) - set(split.sources)):
        raise BuildError(
            f"{root / split.index.path} has rows of a source that the manifest does not name for it ({unknown[0]}). "
            f"Check the release with python -m hf_scripts.verify {root}."
        )
    counted = table.group_by(list(_COLUMNS)).aggregate([([], "count_all")])
    counted = counted.sort_by([(name, "ascending") for name in _COLUMNS]).to_pylist()
    classes = (
        ClassRows(r["source"], r["class_id"], r["class_name"], ROLES[r["role"]], r["count_all"]) for r in counted
    )
    return SplitRows(key, tuple(classes), first_rows(table, FIRST, pictured) if split.data else {})


def pictured_sources(manifest: Manifest, shown: PictureChoice) -> frozenset[str]:
    """Return the sources whose pictures a page shows."""
    if shown == "none":
        return frozenset()
    return frozenset(key for key in manifest.sources if shown == "all" or may_be_published(key))


def may_be_published(source: str) -> bool:
    """Whether anybody may be shown images of a source; an undeclared source counts as `ids-only`."""
    declared = declared_source(source)
    return declared is not None and declared.licence.publish == OPEN


def thumbnails(
    root: Path, manifest: Manifest, splits: Sequence[SplitRows], budget: int = BUDGET
) -> dict[tuple[str, Role], list[Thumbnail]]:
    """Make equally many thumbnails of each role of each split, at most `budget` bytes of `data:` URIs in all."""
    groups = sum(len(split.first) for split in splits)
    most = max(1, min(FIRST, budget // (_TYPICAL * max(groups, 1))))
    entries, by_role = manifest.by_key(), dict[tuple[str, Role], list[Thumbnail]]()
    for split in splits:
        chosen = {role: rows[:most] for role, rows in split.first.items()}
        if chosen:
            rows = np.sort(np.concatenate(list(chosen.values())))
            pictures = {picture.row: picture for picture in read_pictures(root, split.key, entries[split.key], rows)}
            for role, numbers in chosen.items():
                by_role[split.key, role] = [_thumbnail(pictures[number]) for number in numbers.tolist()]
    return _within(by_role, budget)


def _thumbnail(picture: RowPicture) -> Thumbnail:
    image, file = picture.image, io.BytesIO()
    exact = max(image.size) <= _AS_IT_IS
    if exact:
        image.save(file, "PNG", optimize=True)
    else:
        image.thumbnail((_SIDE, _SIDE))
        image.save(file, "JPEG", quality=_QUALITY, optimize=True)
    uri = f"data:image/{'png' if exact else 'jpeg'};base64,{base64.b64encode(file.getvalue()).decode()}"
    return Thumbnail(uri, image.width, image.height, picture.class_name, exact)


def _within(
    groups: Mapping[tuple[str, Role], Sequence[Thumbnail]], budget: int
) -> dict[tuple[str, Role], list[Thumbnail]]:
    """Select thumbnails within the budget: the first of every group, then the second, and so on."""
    selected: dict[tuple[str, Role], list[Thumbnail]] = {group: [] for group in groups}
    used = 0
    for next_ones in itertools.zip_longest(*groups.values()):
        for group, thumbnail in zip(groups, next_ones, strict=True):
            if thumbnail is not None:
                used += len(thumbnail.uri)
                if used > budget:
                    return selected
                selected[group].append(thumbnail)
    return selected
