"""Checks the consistency of a release: exclusions, overlaps, parts, and ids of different splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.release.columns import ID_OVERLAP
from builders.release.entries import Manifest
from builders.release.schema import ROLES
from builders.release.split_entries import SplitEntry, pieces_by_key
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
        parts = {
            key: part
            for split, entry in config.splits.items()
            for key, part in pieces_by_key(f"{name}/{split}", entry).items()
        }
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
            elif left_out != entry.excluded:
                problems.add(
                    "exclusions",
                    f"{key}: {entry.excluded:,} images are excluded in manifest.json, and {left_out:,} in {path}",
                )
    return problems


def _rules(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{rule} {images:,}" for rule, images in sorted(counts.items())) or "nothing"


def check_overlaps(root: Path, manifest: Manifest) -> Problems:
    """Check the counts of rows with an `id_overlap` in the manifest. Indexes must be readable."""
    problems = Problems()
    for key, config, entry in manifest.splits():
        if ID_OVERLAP not in config.own_columns():
            continue
        values = read_parquet(root / entry.index.path, [ID_OVERLAP.name])[ID_OVERLAP.name]
        found = len(values) - values.null_count
        if entry.overlaps != found:
            listed = "no number" if entry.overlaps is None else f"{entry.overlaps:,}"
            problems.add("overlaps", f"{key}: {found:,} rows have an id_overlap, and manifest.json lists {listed}")
    return problems


def check_parts(root: Path, manifest: Manifest) -> Problems:
    """Check the rows of each role and source of every joined split against its parts. Indexes must be readable."""
    problems = Problems()
    for key, _, entry in manifest.splits():
        if entry.parts is None:
            continue
        wanted: Counter[tuple[str, str]] = Counter()
        for part in entry.parts:
            wanted[part.role, part.source] += part.rows
        rows = read_parquet(root / entry.index.path, ["role", "source"])
        counted = rows.group_by(["role", "source"]).aggregate([([], "count_all")])
        found = {(ROLES[row["role"]], row["source"]): row["count_all"] for row in counted.to_pylist()}
        for role, source in sorted(wanted.keys() | found.keys()):
            expected, there = wanted[role, source], found.get((role, source), 0)
            if expected != there:
                rows_of = f"{there:,} rows of role {role} from {source}"
                problems.add("parts", f"{key}: has {rows_of}, and its parts have {expected:,}")
    return problems


def check_ids(root: Path, manifest: Manifest) -> Problems:
    """Check that no id occurs in two splits of a config. All indexes must be readable."""
    problems = Problems()
    for name, config in sorted(manifest.configs.items()):
        mine = [(f"{name}/{split}", entry) for split, entry in sorted(config.splits.items())]
        _check_ids(root, mine, problems)
    return problems


def _check_ids(root: Path, mine: Sequence[tuple[str, SplitEntry]], problems: Problems) -> None:
    seen: list[tuple[str, pa.ChunkedArray]] = []
    for key, split in mine:
        ids = read_parquet(root / split.index.path, ["id"])["id"]
        for other, others in seen:
            both = ids.filter(pc.is_in(ids, value_set=others))
            if len(both):
                ids_ = f"{len(both):,} ids are" if len(both) > 1 else "1 id is"
                problems.add("id in two splits", f"{key}: {ids_} also in {other}, for instance {both[0]}")
        seen.append((key, ids))
