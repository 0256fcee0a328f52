"""Pictures of rows that a detector takes for what they are not: unknown ones that look known, and the reverse.

Tested by `tests/evaluation/report/test_looks.py`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from builders.card.grid import fitted
from builders.release import images
from builders.release.reader import RowGroup
from builders.storage.parquet import open_parquet
from unknown_detection.evaluation.frame import TEST
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.report.names import set_name
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS

SHOWN, SIDE = 8, 96
"""Pictures of each kind, and pixels of the square that they are fitted into (ours)."""


class Look(NamedTuple):
    """A picture as a `data:` address, and what it is of."""

    source: str
    caption: str


def confused_rows(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the unknown rows with the lowest scores and the known ones of `test` with the highest, by a heading.

    A column `row` has their numbers in their splits.
    """
    rows = rows.assign(row=rows.groupby(["config", "split"], observed=True).cumcount())
    unknown = rows[~rows["known"] & ~rows["split"].isin(FIT_AND_TUNE_SPLITS)]
    known = rows[rows["known"] & (rows["split"] == TEST)]
    return {
        "Unknown rows that look most known": unknown.nsmallest(SHOWN, "score"),
        "Known rows that look least known": known.nlargest(SHOWN, "score"),
    }


def look_at(release: Release, rows: pd.DataFrame) -> list[Look]:
    """Read the pictures of some rows from the shards of a release in a folder; none where it has no pixels.

    The Hub is not asked, since `datasets` would download every image of a config for a few.

    Raises:
        BuildError: a shard is damaged, or a picture does not decode.
    """
    found: dict[object, Look] = {}
    for (config, split), of_split in rows.groupby(["config", "split"], observed=True):
        numbers = of_split.sort_values("row")
        folder = Path(release.source) / "data" / str(config)
        files = [] if release.revision else sorted(folder.glob(f"{split}-[0-9]*-of-[0-9]*.parquet"))
        pictures = _pictures(files, numbers["row"].tolist())
        for (place, row), picture in zip(numbers.iterrows(), pictures, strict=bool(files)):
            found[place] = Look(picture, f"{row['class_id']}, {set_name(str(split))}, score {row['score']:.4g}")
    return [found[place] for place in rows.index if place in found]


def _pictures(files: Sequence[Path], rows: Sequence[int]) -> Iterator[str]:
    numbers, start = np.array(rows, dtype=np.int64), 0
    for path in files:
        with open_parquet(path) as opened:
            sizes = [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
        for group, size in enumerate(sizes):
            inside = numbers[(numbers >= start) & (numbers < start + size)] - start
            start += size
            if len(inside):
                yield from RowGroup(path, group, tuple(inside.tolist()), 0).each(_small)


def _small(data: bytes) -> str:
    encoded = io.BytesIO()
    fitted(images.decode(data).convert("RGB"), SIDE).save(encoded, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(encoded.getvalue()).decode()}"
