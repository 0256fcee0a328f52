"""Shows images that a detector gets wrong: unknown images that look known, and known ones that look unknown."""

from __future__ import annotations

import base64
import functools
import io
from typing import NamedTuple

import pandas as pd
import pyarrow.compute as pc
from PIL import Image

from builders.card.grid import fitted
from unknown_detection.evaluation.frame import TEST
from unknown_detection.evaluation.releases import Release
from unknown_detection.evaluation.report.names import set_name
from unknown_detection.evaluation.scoring.fit_splits import FIT_AND_TUNE_SPLITS

SHOWN, SIDE = 8, 96
"""Pictures of each kind, and pixels of the square that they are fitted into (ours)."""


class Look(NamedTuple):
    """A picture as a `data:` address, and its caption."""

    source: str
    caption: str


def confused_rows(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return by heading the unknown rows with the lowest scores, and the known rows of `test` with the highest."""
    unknown = rows[~rows["known"] & ~rows["split"].isin(FIT_AND_TUNE_SPLITS)]
    known = rows[rows["known"] & (rows["split"] == TEST)]
    return {
        "Unknown rows that look most known": unknown.nsmallest(SHOWN, "score"),
        "Known rows that look least known": known.nlargest(SHOWN, "score"),
    }


def look_at(release: Release, rows: pd.DataFrame) -> list[Look]:
    """Read the pictures of some rows; empty for a release on the Hub, and for splits without pixels.

    The Hub is not asked, since it would send whole shards for a few images.

    Raises:
        EvaluationError: a shard is missing or damaged, or a picture is another one than the index lists.
    """
    looks, images = [], functools.cache(release.images)
    for row in rows.to_dict("records"):
        config, split = row["config"], row["split"]
        if release.revision or not release.manifest.configs[config].splits[split].data:
            continue
        of_split = images(config, split)
        number = pc.index(of_split.rows["id"], row["id"]).as_py()
        caption = f"{row['class_id']}, {set_name(split)}, score {row['score']:.4g}"
        looks.append(Look(_address(of_split.image(number)), caption))
    return looks


def _address(image: Image.Image) -> str:
    encoded = io.BytesIO()
    fitted(image.convert("RGB"), SIDE).save(encoded, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(encoded.getvalue()).decode()}"
