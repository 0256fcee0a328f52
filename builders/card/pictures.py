"""Reads pictures of a release's rows, for the card, the sheets of audits and the page of a release.

Tested by `tests/builders/report/test_pictures.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from PIL import Image

from builders.card.grid import GridImage, Stack, Strip, grid
from builders.release.entries import OPEN, FileEntry, Manifest, SourceEntry, SplitEntry
from builders.release.layout import Layout, samples_path
from builders.release.manifest import file_entry
from builders.release.reader import Rows, read_index, rgb_images
from builders.release.schema import ROLES, UNKNOWN_ROLES, Role
from builders.storage.files import atomic_path


@dataclass(frozen=True)
class RowPicture:
    """A row of a split: its number, id, role and class name, and its image in RGB."""

    row: int
    id: str
    role: Role
    class_name: str
    image: Image.Image

    @property
    def shown(self) -> GridImage:
        """The image as a grid shows it: with its class below, and a frame if it is unknown."""
        return GridImage(self.image, self.class_name.replace("_", " "), self.role in UNKNOWN_ROLES)


def first_rows(index: pa.Table, count: int | None, sources: Collection[str] | None = None) -> dict[Role, Rows]:
    """Return ascending numbers of the first rows of each role, a random sample since a keyed hash sorts rows.

    `index` has the column `role` of a split, and `source` if only rows of some `sources` are taken.
    """
    codes = index["role"].to_numpy()
    is_taken = np.ones(len(codes), bool)
    if sources is not None:
        is_taken = pc.is_in(index["source"], pa.array(sorted(sources), pa.string())).to_numpy()
    by_role = {role: np.flatnonzero(is_taken & (codes == code))[:count] for code, role in enumerate(ROLES)}
    return {role: rows for role, rows in by_role.items() if len(rows)}


def read_pictures(root: Path, key: str, split: SplitEntry, rows: Rows) -> list[RowPicture]:
    """Read the pictures of some rows, in their order."""
    described = read_index(root, split, ["id", "role", "class_name"]).take(pa.array(rows)).to_pylist()
    images = rgb_images(root, key, split, rows)
    return [
        RowPicture(number, row["id"], ROLES[row["role"]], row["class_name"], image)
        for number, row, image in zip(rows.tolist(), described, images, strict=True)
    ]


SAMPLES = 8
"""Images in a picture (ours): one line that fits the width of a card."""


def with_samples(layout: Layout, manifest: Manifest, before: Manifest) -> Manifest:
    """Add sample pictures of all splits that may show one to a manifest; unchanged pictures are not drawn again."""
    earlier_splits, configs = before.by_key(), {}
    for name, config in sorted(manifest.configs.items()):
        splits = {}
        for split, entry in sorted(config.splits.items()):
            key = f"{name}/{split}"
            earlier = earlier_splits.get(key)
            is_same = earlier is not None and earlier.data == entry.data and layout.inside(samples_path(key)).is_file()
            kept = earlier.samples if earlier is not None and is_same else None
            splits[split] = replace(entry, samples=kept or _draw(layout, key, entry, manifest.sources))
        configs[name] = replace(config, splits=splits)
    return replace(manifest, configs=configs)


def _draw(layout: Layout, key: str, split: SplitEntry, sources: Mapping[str, SourceEntry]) -> FileEntry | None:
    """Draw the first images of open sources in a split (`config/split`); None if it has none here."""
    public = {source for source in split.sources if source in sources and sources[source].licence.publish == OPEN}
    if not public or not split.data:
        return None
    column = read_index(layout.root, split, ["source"])["source"]
    rows = np.flatnonzero(pc.is_in(column, pa.array(sorted(public))).to_numpy())[:SAMPLES]
    if not len(rows):
        return None
    stacks = tuple(Stack((picture.shown,)) for picture in read_pictures(layout.root, key, split, rows))
    path = layout.inside(samples_path(key))
    with atomic_path(path) as temporary:
        grid([Strip("", stacks)]).save(temporary, "PNG", optimize=True)
    return file_entry(layout, path)
