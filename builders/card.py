"""The dataset card of a release: the YAML that `load_dataset` reads, and the manifest's facts for a person."""

from __future__ import annotations

from typing import Any

from builders.release import INDEX_SUFFIX, Layout, file_entry, write_manifest, write_text


def seal(layout: Layout, manifest: dict[str, Any]) -> None:
    """Write a release's card and then its manifest, which holds the card's size and digest as of every other file."""
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
    text: str = environment.get_template("dataset_card.md.j2").render(front_matter=front, manifest=manifest)
    return text


def front_matter(manifest: dict[str, Any]) -> dict[str, Any]:
    """The card's YAML: every config with its files by split, with pixels and without.

    A config whose splits have no pixels here (`--index-only`) is listed only as its index: a pattern that matches no
    file breaks every config of a repository.
    """
    with_pixels, index = [], []
    for name, config in sorted(manifest["configs"].items()):
        splits = sorted(config["splits"].items())
        files = [
            {"split": split, "path": [f["path"] for f in entry["data"]]} for split, entry in splits if entry["data"]
        ]
        if files:
            with_pixels.append({"config_name": name, "data_files": files})
        rows = [{"split": split, "path": entry["index"]["path"]} for split, entry in splits]
        index.append({"config_name": f"{name}{INDEX_SUFFIX}", "data_files": rows})
    return {
        "pretty_name": "Unknown detection",
        "task_categories": ["image-classification"],
        "configs": with_pixels + index,
    }
