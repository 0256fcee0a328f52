"""Checks files of a release against each other: exclusions against rows, and the ids of different splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.release.entries import Manifest, SplitEntry
from builders.release.tables import TableError, read_excluded
from builders.storage.parquet import read_parquet
from hf_scripts.checks.problems import Problems


def check_excluded(root: Path, manifest: Manifest) -> Problems:
    """Check that the rows and the excluded images of every split add up to the images of its source."""
    problems = Problems()
    for name, config in sorted(manifest.configs.items()):
        path = config.excluded.path
        if not (root / path).is_file():
            continue  # reported by check_file
        try:
            lines = read_excluded(root / path)
        except (OSError, TableError) as error:
            reason = error.reason if isinstance(error, TableError) else error.strerror
            problems.add("exclusions", f"{path}: cannot be read as a table of exclusions ({reason})")
            continue
        parts = {part.key: part for split in config.splits.values() for part in split.parts}
        images = dict.fromkeys(parts, 0)
        by_rule: dict[str, dict[str, int]] = {key: {} for key in images}
        for line in lines:
            if line.split not in images:
                problems.add("exclusions", f"{path}: a line names {line.split}, which is no split of {name}")
            else:
                images[line.split] += line.images
                if line.images:
                    rules = by_rule[line.split]
                    rules[line.rule] = rules.get(line.rule, 0) + line.images
        for key, left_out in images.items():
            entry = parts[key]
            if entry.rows + left_out != entry.available:
                problems.add(
                    "exclusions",
                    f"{key}: {entry.rows:,} rows and {left_out:,} excluded images in {path} do not add up to the "
                    f"{entry.available:,} images of the source",
                )
            elif entry.excluded_by_rule != by_rule[key]:
                problems.add(
                    "exclusions",
                    f"{key}: the excluded images by rule differ: {_rules(entry.excluded_by_rule)} in manifest.json, "
                    f"{_rules(by_rule[key])} in {path}",
                )
    return problems


def _rules(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{rule} {images:,}" for rule, images in sorted(counts.items())) or "nothing"


def check_ids(root: Path, manifest: Manifest) -> Problems:
    """Check that no id occurs in two splits of a config. All indexes must be readable."""
    problems = Problems()
    for name, config in sorted(manifest.configs.items()):
        splits = [(f"{name}/{split}", entry) for split, entry in sorted(config.splits.items())]
        _check_ids(root, splits, problems)
    return problems


def _check_ids(root: Path, splits: Sequence[tuple[str, SplitEntry]], problems: Problems) -> None:
    earlier: list[tuple[str, pa.ChunkedArray]] = []
    for key, split in splits:
        ids = read_parquet(root / split.index.path, ["id"])["id"]
        for other, other_ids in earlier:
            common = ids.filter(pc.is_in(ids, value_set=other_ids))
            if len(common):
                count = f"{len(common):,} ids are" if len(common) > 1 else "1 id is"
                problems.add("id in two splits", f"{key}: {count} also in {other}, for instance {common[0]}")
        earlier.append((key, ids))
