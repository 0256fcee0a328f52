"""The dataset card of a release: YAML for `load_dataset`, and the facts of the manifest for readers.

Tested by `tests/hf_scripts/test_card.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from builders.release.duplicates import CONFIG, SPLIT
from builders.release.entries import FileEntry, Manifest, without_outdated_audits
from builders.release.layout import INDEX_SUFFIX, SEALED_SUFFIX, Layout
from builders.release.manifest import SHARD_NUMBER, file_entry, write_manifest
from builders.release.schema import SHIFT_ROLES, Role
from builders.storage.atomic import write_text

if TYPE_CHECKING:
    import jinja2

# The Hub's categories (hub-docs, datasetcard.md); the larger ones are beyond any release of ours.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "1M<n<10M"


def write_card_and_manifest(layout: Layout, manifest: Manifest) -> Manifest:
    """Write a release's card, and then its manifest, which lists the card like every other file.

    Returns:
        The manifest as written, which lists the card and the withdrawn rows of all splits.
    """
    withdrawn = tuple(
        msgspec.structs.replace(row, split=key) for key, _, split in manifest.splits() for row in split.withdrawn
    )
    manifest = without_outdated_audits(msgspec.structs.replace(manifest, withdrawn=withdrawn))
    write_text(layout.card, render(manifest))
    manifest = msgspec.structs.replace(manifest, card=file_entry(layout, layout.card))
    write_manifest(layout.root, manifest)
    return manifest


def render(manifest: Manifest) -> str:
    """Render the card of a manifest."""
    import yaml

    # A benchmark of somebody's own images has no paper to cite.
    own = [name for name, config in manifest.configs.items() if not manifest.benchmarks[config.benchmark].citation]
    front = yaml.safe_dump(front_matter(manifest), sort_keys=False, allow_unicode=True)
    text: str = _template().render(
        front_matter=front,
        manifest=manifest,
        shifts=shifts(manifest),
        own=[f"`{name}`" for name in sorted(own)],
        published=len(own) < len(manifest.configs),
    )
    return text


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cards", ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("dataset_card.md.j2")


@dataclass(frozen=True)
class Shift:
    """Rows of one kind of distribution shift: their splits (`config/split`), and how many they are."""

    kind: Role
    splits: tuple[str, ...]
    rows: int
    expected: int
    paper: int


def shifts(manifest: Manifest) -> list[Shift]:
    """Count the rows of each kind of shift over all configs; kinds without a split are left out."""
    pieces = [(key, piece) for key, split in manifest.by_key().items() for piece in split.pieces()]
    found = []
    for kind in SHIFT_ROLES:
        mine = [(key, piece) for key, piece in pieces if piece.role == kind]
        if mine:
            rows, expected, paper = (
                sum(numbers) for numbers in zip(*((p.rows, p.expected, p.paper) for _, p in mine), strict=True)
            )
            found.append(Shift(kind, tuple(dict.fromkeys(key for key, _ in mine)), rows, expected, paper))
    return found


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """The card's YAML: licence and tags, and every config with the files, sizes and row counts of its splits.

    It has no features: if the card has none, `datasets` and the Hub's viewer read them from the Parquet schema
    (datasets 5.2, `packaged_modules/parquet`; dataset-viewer, `fill_builder_info`). In the card they would repeat the
    class names for every config, and the Hub refuses large cards. Row counts stay because `load_dataset` checks them.
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
    """A split as the card describes it: its files as the manifest lists them, and its number of rows."""

    files: Sequence[FileEntry]
    rows: int

    @property
    def paths(self) -> list[str]:
        """Paths of the files, relative to the release folder."""
        return [file.path for file in self.files]

    @property
    def size(self) -> int:
        """Total size of the files in bytes."""
        return sum(file.size for file in self.files)


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


def data_path(paths: Sequence[str]) -> str | list[str]:
    """The YAML `path` of a split's files: a file, a pattern for several shards, or a list of files and patterns.

    A pattern contains the number of shards (`train-*-of-00170.parquet`), so that it does not match the shards of an
    earlier build.
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
