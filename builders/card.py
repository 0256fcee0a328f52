"""The dataset card of a release: the YAML that `load_dataset` reads, and the manifest's facts for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from builders.benchmark import ROLES
from builders.duplicates import CONFIG, KEY, SPLIT, features_by_name
from builders.release import (
    INDEX_SUFFIX,
    Layout,
    arrow_schema,
    feature_type,
    file_entry,
    parts_of,
    roles_of,
    sources_of,
    write_manifest,
    write_text,
)

# The Hub's own steps (hub-docs, datasetcard.md); the last has no upper end that a release of ours would reach.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "1M<n<10M"


def seal(layout: Layout, manifest: dict[str, Any]) -> None:
    """Write a release's card and then its manifest, which holds the card's size and digest as of every other file.

    The manifest also gets the list of all withdrawn rows, from those of its splits.
    """
    manifest["withdrawn"] = [
        {**row, "split": f"{config}/{name}"}
        for config, entry in sorted(manifest["configs"].items())
        for name, split in sorted(entry["splits"].items())
        for row in split["withdrawn"]
    ]
    write_text(layout.card, render(manifest))
    manifest["card"] = file_entry(layout, layout.card)
    write_manifest(layout.root, manifest)


def render(manifest: dict[str, Any]) -> str:
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
    text: str = environment.get_template("dataset_card.md.j2").render(
        front_matter=front, manifest=manifest, parts_of=parts_of, roles_of=roles_of, sources_of=sources_of
    )
    return text


def front_matter(manifest: dict[str, Any]) -> dict[str, Any]:
    """The card's YAML: licence and tags, and every config with its features, its files by split and their sizes.

    A config whose splits have no pixels here (`--index-only`) is listed only as its index: a pattern that matches no
    file breaks every config of a repository.
    """
    with_pixels, index = [], []
    for name, config in sorted(manifest["configs"].items()):
        splits = sorted(config["splits"].items())
        pixels = {split: entry["data"] for split, entry in splits if entry["data"]}
        if pixels:
            with_pixels.append(_config(name, config, pixels, image=True))
        rows = {split: [entry["index"]] for split, entry in splits}
        index.append(_config(f"{name}{INDEX_SUFFIX}", config, rows, image=False))
    configs = with_pixels + index + ([_duplicates(manifest[KEY])] if KEY in manifest else [])
    return {
        "pretty_name": "Unknown detection",
        "license": "other",
        "license_name": "several",
        "license_link": "#sources",
        "task_categories": ["image-classification"],
        "tags": ["out-of-distribution-detection", "unknown-detection", "benchmark"],
        "size_categories": [_size(manifest)],
        "configs": [{key: config[key] for key in ("config_name", "data_files")} for config in configs],
        "dataset_info": [config["info"] for config in configs],
    }


def _config(
    name: str, config: Mapping[str, Any], files: Mapping[str, Sequence[Any]], *, image: bool
) -> dict[str, Any]:
    splits = []
    for split, listed in files.items():
        size = sum(file["bytes"] for file in listed)
        splits.append({"name": split, "num_bytes": size, "num_examples": config["splits"][split]["rows"]})
    total = sum(split["num_bytes"] for split in splits)
    return {
        "config_name": name,
        "data_files": [{"split": split, "path": [file["path"] for file in listed]} for split, listed in files.items()],
        "info": {
            "config_name": name,
            "features": features(config["label_names"], config["columns"], image=image),
            "splits": splits,
            "download_size": total,
            "dataset_size": total,
        },
    }


def _duplicates(table: Mapping[str, Any]) -> dict[str, Any]:
    columns = [{"name": name, "dtype": kind} for name, kind in features_by_name().items()]
    split = {"name": SPLIT, "num_bytes": table["bytes"], "num_examples": table["rows"]}
    sizes = {"splits": [split], "download_size": table["bytes"], "dataset_size": table["bytes"]}
    return {
        "config_name": CONFIG,
        "data_files": [{"split": SPLIT, "path": [table["path"]]}],
        "info": {"config_name": CONFIG, "features": columns, **sizes},
    }


def features(label_names: Sequence[str], columns: Sequence[str], *, image: bool) -> list[dict[str, Any]]:
    """The columns of a config in the YAML form of `datasets.Features`; a test compares both.

    They must be those of the files: `load_dataset` believes the YAML, and takes other label names silently.
    """
    classes = {"label": label_names, "role": ROLES}
    described: list[dict[str, Any]] = []
    for name in arrow_schema(label_names, columns, image=image).names:
        if name == "image":
            described.append({"name": name, "dtype": "image"})
        elif name in classes:
            names = {str(number): label for number, label in enumerate(classes[name])}
            described.append({"name": name, "dtype": {"class_label": {"names": names}}})
        else:
            described.append({"name": name, "dtype": feature_type(name)})
    return described


def _size(manifest: Mapping[str, Any]) -> str:
    rows = sum(split["rows"] for config in manifest["configs"].values() for split in config["splits"].values())
    return next((name for limit, name in _SIZES if rows < limit), _LARGEST)
