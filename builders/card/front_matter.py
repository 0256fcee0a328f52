"""The card's YAML front matter, which `load_dataset` and the Hub read: configs with their files, sizes and row counts.

It follows from the manifest alone, and `verify` wants it to the byte. Another text would let releases of earlier
versions fail.

Tested by `tests/hf_scripts/test_card.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from builders.release.duplicates import CONFIG, SPLIT
from builders.release.entries import Manifest
from builders.release.layout import INDEX_SUFFIX, SEALED_SUFFIX
from builders.release.manifest import SHARD_NUMBER
from builders.release.split_entries import FileEntry

# The Hub's categories (hub-docs, datasetcard.md); the larger ones are beyond any release of ours.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "1M<n<10M"


def front_matter_text(manifest: Manifest) -> str:
    """The beginning of the card: the YAML between two lines of ---, without anchors."""
    import yaml

    return f"---\n{yaml.safe_dump(front_matter(manifest), sort_keys=False, allow_unicode=True)}---\n"


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """The card's YAML: licence and tags, and every config with the files, sizes and row counts of its splits.

    It has no features: if the card has none, `datasets` and the Hub's viewer read them from the Parquet schema
    (datasets 5.2, `packaged_modules/parquet`; dataset-viewer, `fill_builder_info`). In the card they would repeat the
    class names for every config, and the Hub refuses large cards. Row counts stay because `load_dataset` checks them.
    """
    configs = card_configs(manifest)
    rows = sum(split.rows for _, _, split in manifest.splits())
    info = []
    for name, splits in configs.items():
        sizes = {split: sum(file.size for file in listed.files) for split, listed in splits.items()}
        info.append(
            {
                "config_name": name,
                "splits": [
                    {"name": split, "num_bytes": sizes[split], "num_examples": listed.rows}
                    for split, listed in splits.items()
                ],
                "download_size": sum(sizes.values()),
                "dataset_size": sum(sizes.values()),
            }
        )
    return {
        "pretty_name": "Unknown detection",
        "license": "other",
        "license_name": "several",
        "license_link": "#sources",
        "task_categories": ["image-classification"],
        "tags": ["out-of-distribution-detection", "unknown-detection", "benchmark"],
        "size_categories": [next((name for limit, name in _SIZES if rows < limit), _LARGEST)],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": split, "path": data_path(listed.files)} for split, listed in splits.items()],
            }
            for name, splits in configs.items()
        ],
        "dataset_info": info,
    }


class CardSplit(NamedTuple):
    """A split as the card describes it: its files as the manifest lists them, and its number of rows."""

    files: Sequence[FileEntry]
    rows: int


def card_configs(manifest: Manifest) -> dict[str, dict[str, CardSplit]]:
    """The configs of the card with their splits, in its order: images, indexes, sealed residuals, the duplicates.

    A config without shards (`--index-only`) has only its index in the card: one pattern that matches no file breaks
    every config of a repository.
    """
    with_pixels: dict[str, dict[str, CardSplit]] = {}
    indexes: dict[str, dict[str, CardSplit]] = {}
    sealed: dict[str, dict[str, CardSplit]] = {}
    for name, config in sorted(manifest.configs.items()):
        splits = sorted(config.splits.items())
        pixels = {split: CardSplit(entry.data, entry.rows) for split, entry in splits if entry.data}
        if pixels:
            with_pixels[name] = pixels
        indexes[f"{name}{INDEX_SUFFIX}"] = {split: CardSplit([entry.index], entry.rows) for split, entry in splits}
        residuals = {split: CardSplit(entry.sealed, entry.rows) for split, entry in splits if entry.sealed}
        if residuals:
            sealed[f"{name}{SEALED_SUFFIX}"] = residuals
    listed = manifest.duplicates
    tables = {} if listed is None else {CONFIG: {SPLIT: CardSplit([listed.file], listed.rows)}}
    return {**with_pixels, **indexes, **sealed, **tables}


def data_path(files: Sequence[FileEntry]) -> str | list[str]:
    """The YAML `path` of a split's files: a file, a pattern for several shards, or a list of files and patterns.

    A pattern contains the number of shards (`train-*-of-00170.parquet`), so that it does not match the shards of an
    earlier build.
    """
    if len(files) == 1:
        return files[0].path
    patterns = sorted({SHARD_NUMBER.sub("-*-of-", file.path) for file in files})
    return patterns[0] if len(patterns) == 1 else patterns
