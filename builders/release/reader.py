"""Reads the images of a release's splits, for audits of pixels.

Tested by `tests/builders/audit/test_main.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from PIL import Image

from builders.errors import BuildError, one_line
from builders.release import images
from builders.release.entries import ConfigEntry, Manifest
from builders.release.split_entries import SplitEntry
from builders.storage.parquet import open_parquet
from builders.storage.regular import require_regular

_BATCH_ROWS = 256


def config_of(manifest: Manifest, name: str) -> ConfigEntry:
    """A config's entry in the manifest.

    Raises:
        BuildError: the release has no such config.
    """
    if name not in manifest.configs:
        known = ", ".join(sorted(manifest.configs))
        raise BuildError(f"The release has no config {one_line(name) or 'without a name'}. Name one of {known}.")
    return manifest.configs[name]


def read_images(root: Path, key: str, split: SplitEntry) -> Iterator[tuple[dict[str, Any], Image.Image]]:
    """The rows of a split in order, each without its image column, and its image as RGB.

    Raises:
        BuildError: the split has no shards here, or one is missing or no regular file.
    """
    if not split.data:
        raise BuildError(f"{key} has no images in {root}, only an index. Build it without --index-only.")
    for file in split.data:
        path = root / file.path
        require_regular(path)
        with open_parquet(path) as opened:
            for batch in opened.iter_batches(batch_size=_BATCH_ROWS):
                encoded = pc.struct_field(batch.column("image"), "bytes")
                for row, data in zip(batch.drop_columns("image").to_pylist(), encoded, strict=True):
                    yield row, images.decode(data.as_py()).convert("RGB")
