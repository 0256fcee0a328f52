"""The manifest of a release: reading and writing it, and the facts of a split's entry.

Tested by `tests/builders/release/test_release.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builders.errors import BuildError
from builders.release.columns import Column, listed_column
from builders.release.digests import file_sha256
from builders.release.layout import Layout
from builders.storage.atomic import write_text

FORMAT = 1
"""Version of the folder's shape and of the manifest's; a reader refuses one that it does not know."""


SHARD_NUMBER = re.compile(r"-\d{5}-of-(?=\d{5}\.parquet$)")
"""The part of a shard's file name (`shard_name`) that differs between the shards of a split."""


def columns_of(entry: Mapping[str, Any]) -> tuple[Column, ...]:
    """A config's own columns, from its entry in a manifest."""
    return tuple(listed_column(column) for column in entry["columns"])


def parts_of(key: str, entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What a split in a manifest is made of, by key.

    Args:
        key: `config/split`.
        entry: its entry.

    Returns:
        The entries of its parts by `config/split.part`; where it is not joined, its own by `config/split`. Each has
        `role`, `source`, `partitions`, `rows`, `available`, `excluded` and `adopted`.
    """
    return {f"{key}.{part['name']}": part for part in entry["parts"]} if "parts" in entry else {key: entry}


def roles_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The different roles of a split's rows, in the order of its parts."""
    return tuple(dict.fromkeys(part["role"] for part in parts_of("", entry).values()))


def sources_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of the different sources of a split's rows, in the order of its parts."""
    return tuple(dict.fromkeys(part["source"] for part in parts_of("", entry).values()))


def is_training(key: str, entry: Mapping[str, Any]) -> bool:
    """Whether a split (`config/split`) holds in-distribution images to train on and nothing else."""
    return key.endswith("/train") and roles_of(entry) == ("in_distribution",)


def file_entry(layout: Layout, path: Path) -> dict[str, Any]:
    """A file as the manifest lists it."""
    return {"path": layout.relative(path), "bytes": path.stat().st_size, "sha256": file_sha256(path)}


def read_manifest(root: Path) -> dict[str, Any]:
    """Read a release's manifest.

    Raises:
        BuildError: there is none, or it is of a format this version does not know.
    """
    path = Layout(root).manifest
    if not path.is_file():
        raise BuildError(
            f"expected a release folder with a manifest.json, found none at {root}; build one there first."
        )
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BuildError(f"expected JSON in {path}, found other text ({error}); build the release anew.") from error
    found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
    if found != FORMAT:
        raise BuildError(f"expected manifest format {FORMAT}, found {found} in {path}; use the version that wrote it.")
    return manifest


def write_manifest(root: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest: sorted keys and no times, so that equal releases have equal manifests."""
    write_text(Layout(root).manifest, json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
