"""Pictures of a release's rows, which the card, the sheets of audits and the page of a release show.

Tested by `tests/builders/report/test_pictures.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from builders.card.grid import GridImage
from builders.release.reader import Rows, read_index, rgb_images
from builders.release.schema import ROLES, UNKNOWN_ROLES, Role
from builders.release.split_entries import SplitEntry


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
        """The image in a grid, with its class below it and a frame if that is unknown."""
        return GridImage(self.image, self.class_name.replace("_", " "), self.role in UNKNOWN_ROLES)


def first_rows(index: pa.Table, count: int, sources: Collection[str] | None = None) -> dict[Role, Rows]:
    """Find the first rows of each role; a keyed hash sorts rows, so they are a random sample.

    Args:
        index: the column `role` of a split's index, and `source` if `sources` is given.
        count: rows of each role at most.
        sources: keys of the sources whose rows are taken.

    Returns:
        Ascending row numbers, for each role that has any.
    """
    codes = index["role"].to_numpy()
    taken = np.ones(len(codes), bool)
    if sources is not None:
        taken = pc.is_in(index["source"], pa.array(sorted(sources), pa.string())).to_numpy()
    by_role = {role: np.flatnonzero(taken & (codes == code))[:count] for code, role in enumerate(ROLES)}
    return {role: rows for role, rows in by_role.items() if len(rows)}


def read_pictures(root: Path, key: str, split: SplitEntry, rows: Rows) -> list[RowPicture]:
    """Read the pictures of some rows, in their order; arguments and errors as of `builders.release.reader`."""
    described = read_index(root, split, ["id", "role", "class_name"]).take(pa.array(rows)).to_pylist()
    images = rgb_images(root, key, split, rows)
    return [
        RowPicture(number, row["id"], ROLES[row["role"]], row["class_name"], image)
        for number, row, image in zip(rows.tolist(), described, images, strict=True)
    ]
