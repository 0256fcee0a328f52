"""Pictures of sample images for the card, of sources whose licence lets images be public.

Tested by `tests/builders/card/test_samples.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from builders.card.grid import Column, Row, Shown, grid
from builders.errors import BuildError, one_line
from builders.release import images
from builders.release.entries import OPEN, ConfigEntry, Manifest, SourceEntry
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.schema import ROLES, UNKNOWN_ROLES
from builders.release.split_entries import FileEntry, SplitEntry
from builders.storage.atomic import atomic_path
from builders.storage.parquet import open_parquet

SAMPLES = 8
"""Images in a picture (ours): one line that fits the width of a card."""

_BATCH_ROWS = 32


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
    shown = _first(layout.root, split, public)
    if not shown:
        return None
    path = layout.samples(config, name)
    with atomic_path(path) as temporary:
        grid([Row("", tuple(Column((one,)) for one in shown))]).save(temporary, "PNG", optimize=True)
    return file_entry(layout, path)


def _first(root: Path, split: SplitEntry, public: set[str]) -> list[Shown]:
    """The first images of some sources; rows are sorted by a keyed hash, so these are a random sample."""
    columns = ["image", "role", "class_name", "source"]
    found: list[Shown] = []
    for file in split.data:
        try:
            with open_parquet(root / file.path) as opened:
                for batch in opened.iter_batches(_BATCH_ROWS, columns=columns):
                    some = batch.filter(pc.is_in(batch["source"], value_set=pa.array(sorted(public))))
                    for row in some.slice(0, SAMPLES - len(found)).to_pylist():
                        image = images.decode(row["image"]["bytes"]).convert("RGB")
                        unknown = ROLES[row["role"]] in UNKNOWN_ROLES
                        found.append(Shown(image, row["class_name"].replace("_", " "), unknown))
                    if len(found) == SAMPLES:
                        return found
        except (*images.DECODE_ERRORS, pa.ArrowException) as error:
            raise BuildError(
                f"Cannot draw samples of {root / file.path}: {one_line(error)}. Build the release again."
            ) from error
    return found
