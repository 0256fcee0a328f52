"""Copies from a published release into the folder what a build from its index does not make anew.

Tested by `tests/builders/pipeline/test_from_index.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa

from builders.errors import BuildError
from builders.executors.base import Advance
from builders.pipeline.read_plan import ReadPlan
from builders.release.digests import file_sha256
from builders.release.entries import EMPTY, ConfigEntry, FileEntry, Manifest, SplitEntry
from builders.release.layout import Layout
from builders.release.manifest import file_entry
from builders.release.tables import Exclusion, parts_beside, write_excluded, write_index
from builders.storage.files import atomic_path
from builders.storage.parquet import write_arrow


class RepeatedFile(NamedTuple):
    """A file of a published release that is copied unchanged: shard `shard` of `shards` in the folder `folder`.

    `copy_file` copies or downloads a file that the release lists to a path.
    """

    folder: str
    shard: int
    file: FileEntry
    shards: int
    copy_file: Callable[[FileEntry, Path], object]


@dataclass(frozen=True)
class Repeated:
    """What is copied from a published release for the splits that are built; empty in a build from sources.

    `rows` are the published ones of each split, `excluded` the exclusions of these splits, `files` what is copied of
    each split, and `duplicates` the places of the table of duplicates.
    """

    manifest: Manifest = EMPTY
    rows: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    excluded: tuple[Exclusion, ...] = field(default=(), repr=False)
    files: Mapping[str, Sequence[RepeatedFile]] = field(default_factory=dict)
    duplicates: tuple[Path, ...] = ()


def copy_published(layout: Layout, key: str, rows: pa.Table, files: Sequence[RepeatedFile]) -> None:
    """Copy a split's pixels that cannot be generated again, and its sealed residuals, unless the folder has them."""
    # A plan says that a split is begun (`Layout.plan`): what a kill leaves of it is unfinished, and not foreign.
    write_arrow(layout.plan(key), rows)
    for folder, shard, file, shards, copy_file in files:
        target = layout.shard(folder, key, shard, shards)
        if target.is_file() and file_sha256(target) == file.sha256:
            continue
        with atomic_path(target) as temporary:
            copy_file(file, temporary)
            if layout.relative(target) != file.path or file_sha256(temporary) != file.sha256:
                raise BuildError(
                    f"{file.path} in the published release is not of shard {shard} of {key}, or not as its manifest "
                    f"lists it (SHA-256 {file.sha256}). Fetch the release again."
                )


def with_repeated_splits(
    repeated: Repeated, layout: Layout, written: Sequence[ReadPlan], before: Manifest, advance: Advance
) -> Manifest:
    """Write the published indexes and exclusions, and add the splits to a manifest as the publisher described them."""
    ready, manifest = {plan.key: plan for plan in written}, repeated.manifest
    splits: dict[str, dict[str, SplitEntry]] = {}
    for key, rows in repeated.rows.items():
        name, _, split = key.partition("/")
        config, entry = manifest.configs[name], manifest.by_key()[key]
        demo = manifest.benchmarks[config.benchmark].demo
        write_index(layout.index(key), rows, config.label_names, config.columns, demo=demo)
        data = ready[key].data_entries(layout, ready[key].records(layout)) if key in ready else entry.data
        described = msgspec.structs.replace(entry, data=data, index=file_entry(layout, layout.index(key)))
        splits.setdefault(name, dict(before.configs[name].splits) if name in before.configs else {})[split] = described
        advance(rows.num_rows)
    configs: dict[str, ConfigEntry] = {}
    for name, entries in splits.items():
        own = [entries[key.partition("/")[2]] for key in repeated.rows if key.startswith(f"{name}/")]
        parts = [part.key for entry in own for part in entry.parts]
        lines = [line for line in repeated.excluded if line.split in parts]
        published = [part.key for entry in manifest.configs[name].splits.values() for part in entry.parts]
        others = parts_beside(published, before.configs.get(name))
        write_excluded(layout.excluded(name), lines, parts, others)
        excluded = file_entry(layout, layout.excluded(name))
        configs[name] = msgspec.structs.replace(manifest.configs[name], splits=entries, excluded=excluded)
    used = {key for split in repeated.rows for key in manifest.by_key()[split].sources}
    benchmarks = {config.benchmark: manifest.benchmarks[config.benchmark] for config in configs.values()}
    return msgspec.structs.replace(
        before,
        benchmarks={**before.benchmarks, **benchmarks},
        configs={**before.configs, **configs},
        sources={**before.sources, **{key: manifest.sources[key] for key in sorted(used)}},
    )
