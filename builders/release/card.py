"""The dataset card of a release: the YAML that `load_dataset` reads, and the manifest's facts for a person.

Tested by `tests/hf_scripts/test_card.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from builders.release.duplicates import CONFIG, SPLIT
from builders.release.entries import FileEntry, Manifest
from builders.release.layout import INDEX_SUFFIX, Layout
from builders.release.manifest import SHARD_NUMBER, file_entry, write_manifest
from builders.storage.atomic import write_text

# The Hub's own steps (hub-docs, datasetcard.md); the last has no upper end that a release of ours would reach.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "1M<n<10M"


def write_card_and_manifest(layout: Layout, manifest: Manifest) -> Manifest:
    """Write a release's card and then its manifest, which holds the card's size and digest as of every other file.

    Returns:
        The manifest as written: with the card, and with the withdrawn rows of all splits.
    """
    withdrawn = tuple(
        msgspec.structs.replace(row, split=key) for key, _, split in manifest.splits() for row in split.withdrawn
    )
    manifest = msgspec.structs.replace(manifest, withdrawn=withdrawn)
    write_text(layout.card, render(manifest))
    manifest = msgspec.structs.replace(manifest, card=file_entry(layout, layout.card))
    write_manifest(layout.root, manifest)
    return manifest


def render(manifest: Manifest) -> str:
    """Render the card of a manifest."""
    import jinja2
    import yaml

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cards", ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    front = yaml.safe_dump(front_matter(manifest), sort_keys=False, allow_unicode=True)
    text: str = environment.get_template("dataset_card.md.j2").render(front_matter=front, manifest=manifest)
    return text


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """The card's YAML: licence and tags, and every config with the files, sizes and row counts of its splits.

    It has no features: `datasets` and the Hub's viewer take them from the Parquet schema where the card has none
    (datasets 5.2, `packaged_modules/parquet`; dataset-viewer, `fill_builder_info`). Here they would repeat the class
    names for every config, and the Hub refuses large cards. Row counts stay, because `load_dataset` compares them.
    """
    configs = card_configs(manifest)
    return {
        "pretty_name": "Unknown detection",
        "license": "other",
        "license_name": "several",
        "license_link": "#sources",
        "task_categories": ["image-classification"],
        "tags": ["out-of-distribution-detection", "unknown-detection", "benchmark"],
        "size_categories": [_size(manifest)],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": split, "path": data_path(listed.paths)} for split, listed in splits.items()],
            }
            for name, splits in configs.items()
        ],
        "dataset_info": [_info(name, splits) for name, splits in configs.items()],
    }


@dataclass(frozen=True)
class CardSplit:
    """What the card says of one split: its files as the manifest lists them, and its rows."""

    files: Sequence[FileEntry]
    rows: int

    @property
    def paths(self) -> list[str]:
        """Paths of the files, relative to the release."""
        return [file.path for file in self.files]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def card_configs(manifest: Manifest) -> dict[str, dict[str, CardSplit]]:
    """The splits of every config that the card names, in its order: with pixels, indexes, the table of duplicates.

    A config whose splits have no pixels here (`--index-only`) is listed only as its index: a pattern that matches no
    file breaks every config of a repository.
    """
    with_pixels: dict[str, dict[str, CardSplit]] = {}
    indexes: dict[str, dict[str, CardSplit]] = {}
    for name, config in sorted(manifest.configs.items()):
        splits = sorted(config.splits.items())
        pixels = {split: CardSplit(entry.data, entry.rows) for split, entry in splits if entry.data}
        if pixels:
            with_pixels[name] = pixels
        indexes[f"{name}{INDEX_SUFFIX}"] = {split: CardSplit([entry.index], entry.rows) for split, entry in splits}
    listed = manifest.duplicates
    tables = {} if listed is None else {CONFIG: {SPLIT: CardSplit([listed.file], listed.rows)}}
    return {**with_pixels, **indexes, **tables}


def data_path(paths: Sequence[str]) -> str | list[str]:
    """The YAML `path` of a split's files: the file, one pattern for several shards, or a list of what is no shard.

    A pattern keeps the number of shards (`train-*-of-00170.parquet`), so that shards of an earlier build of the same
    split do not match.
    """
    if len(paths) == 1:
        return paths[0]
    patterns = sorted({SHARD_NUMBER.sub("-*-of-", path) for path in paths})
    return patterns[0] if len(patterns) == 1 else patterns


def _info(name: str, splits: Mapping[str, CardSplit]) -> dict[str, Any]:
    total = sum(split.size for split in splits.values())
    return {
        "config_name": name,
        "splits": [
            {"name": split, "num_bytes": listed.size, "num_examples": listed.rows} for split, listed in splits.items()
        ],
        "download_size": total,
        "dataset_size": total,
    }


def _size(manifest: Manifest) -> str:
    rows = sum(split.rows for _, _, split in manifest.splits())
    return next((name for limit, name in _SIZES if rows < limit), _LARGEST)
