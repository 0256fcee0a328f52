"""Pictures of sample images for the card, of sources whose licence lets images be public.

Tested by `tests/builders/card/test_samples.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.card.grid import Stack, Strip, grid
from builders.card.pictures import read_pictures
from builders.release.entries import OPEN, ConfigEntry, Manifest, SourceEntry
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.reader import read_index
from builders.release.split_entries import FileEntry, SplitEntry
from builders.storage.atomic import atomic_path

SAMPLES = 8
"""Images in a picture (ours): one line that fits the width of a card."""


def with_samples(layout: Layout, manifest: Manifest, before: Manifest) -> Manifest:
    """Draw the pictures of all splits that may have one, but for those that are the same as before.

    Args:
        layout: the release folder, with all shards.
        manifest: its manifest without a card.
        before: the manifest of earlier runs.

    Returns:
        The manifest, which lists the pictures.
    """
    known = before.by_key()

    def picture(config: str, name: str, split: SplitEntry) -> FileEntry | None:
        earlier = known.get(f"{config}/{name}")
        if earlier is None or earlier.data != split.data or not layout.samples(config, name).is_file():
            return _draw(layout, config, name, split, manifest.sources)
        return earlier.samples or _draw(layout, config, name, split, manifest.sources)

    def described(name: str, config: ConfigEntry) -> ConfigEntry:
        splits = {
            key: msgspec.structs.replace(split, samples=picture(name, key, split))
            for key, split in sorted(config.splits.items())
        }
        return msgspec.structs.replace(config, splits=splits)

    configs = {name: described(name, config) for name, config in sorted(manifest.configs.items())}
    return msgspec.structs.replace(manifest, configs=configs)


def _draw(
    layout: Layout, config: str, name: str, split: SplitEntry, sources: Mapping[str, SourceEntry]
) -> FileEntry | None:
    """Draw the first images of open sources in a split; None if it has none here."""
    public = {key for key in split.sources if key in sources and sources[key].licence.publish == OPEN}
    if not public or not split.data:
        return None
    sources = read_index(layout.root, split, ["source"])["source"]
    rows = np.flatnonzero(pc.is_in(sources, pa.array(sorted(public))).to_numpy())[:SAMPLES]
    if not len(rows):
        return None
    pictures = read_pictures(layout.root, f"{config}/{name}", split, rows)
    path = layout.samples(config, name)
    with atomic_path(path) as temporary:
        grid([Strip("", tuple(Stack((picture.shown,)) for picture in pictures))]).save(temporary, "PNG", optimize=True)
    return file_entry(layout, path)
