"""Checks the consistency of a release: exclusions, parts, ids of different splits, and the card."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from builders.release import card, duplicates
from builders.release.digests import file_sha256
from builders.release.entries import Manifest, SplitEntry, pieces_by_key
from builders.release.layout import INDEX_SUFFIX, Layout
from builders.release.schema import ROLES
from builders.release.tables import read_audit, read_excluded
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
        except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
            problems.add("exclusions", f"{path}: cannot be read as a table of exclusions ({error})")
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


def check_audit(root: Path, manifest: Manifest) -> Problems:
    """Check that the audit file lists the pairs that the column `near_duplicate_of` names, and no others."""
    problems = Problems()
    for name, config in sorted(manifest.configs.items()):
        path = config.audit.path if config.audit is not None else ""
        if not path or not (root / path).is_file():
            continue  # a missing file is reported by check_file
        try:
            lines = read_audit(root / path)
            first: dict[tuple[str, str], str] = {}
            for line in sorted(lines, key=lambda line: (line.split, line.id, float(line.distance))):
                first.setdefault((line.split, line.id), line.near_duplicate_of)
        except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
            problems.add("audit", f"{path}: cannot be read as a table of near-duplicates ({error})")
            continue
        there: dict[tuple[str, str], str] = {}
        for split, entry in sorted(config.splits.items()):
            rows = pq.read_table(root / entry.index.path, columns=["id", "near_duplicate_of"])
            rows = rows.filter(pc.not_equal(rows["near_duplicate_of"], ""))
            for row in rows.to_pylist():
                there[f"{name}/{split}", row["id"]] = row["near_duplicate_of"]
        for key in sorted(first.keys() | there.keys()):
            if first.get(key) != there.get(key):
                problems.add(
                    "audit",
                    f"{key[0]}: near_duplicate_of of {key[1]} is {there.get(key) or 'empty'}, and "
                    f"{first.get(key) or 'not listed'} in {path}",
                )
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
        rows = pq.read_table(root / entry.index.path, columns=["role", "source"])
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


def check_card(root: Path, manifest: Manifest) -> Problems:
    """Check the digest of the card, and that its YAML gives `load_dataset` every listed file and no other.

    The card need not equal the output of the current template: templates change, and published releases do not.
    `python -m hf_scripts.card --check` compares the two.
    """
    problems = Problems()
    path = Layout(root).card
    try:
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        problems.add("card", f"README.md: cannot be read: {reason}")
        return problems
    _check_front_matter(root, manifest, found, problems)
    if manifest.card is not None and file_sha256(path) != manifest.card.sha256:
        problems.merge(_edited(manifest, found))
    return problems


def _edited(manifest: Manifest, found: str) -> Problems:
    """The first line that differs from the current template's output; if none does, that the digest is wrong."""
    problems = Problems()
    expected = card.render(manifest)
    if found == expected:
        problems.add("card", "README.md: the SHA-256 is not the one that manifest.json lists")
    else:
        wanted, there = expected.split("\n"), found.split("\n")
        pairs = zip([*wanted, ""], [*there, ""], strict=False)
        line = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(wanted), len(there)))
        texts = [lines[line] if line < len(lines) else "the end" for lines in (wanted, there)]
        problems.add("card", f"README.md line {line + 1}: is {texts[1]!r}, not {texts[0]!r} as manifest.json gives")
    return problems


def _check_ids(root: Path, mine: Sequence[tuple[str, SplitEntry]], problems: Problems) -> None:
    seen: list[tuple[str, pa.ChunkedArray]] = []
    for key, split in mine:
        ids = pq.read_table(root / split.index.path, columns=["id"])["id"]
        for other, others in seen:
            both = ids.filter(pc.is_in(ids, value_set=others))
            if len(both):
                ids_ = f"{len(both):,} ids are" if len(both) > 1 else "1 id is"
                problems.add("id in two splits", f"{key}: {ids_} also in {other}, for instance {both[0]}")
        seen.append((key, ids))


def _check_front_matter(root: Path, manifest: Manifest, text: str, problems: Problems) -> None:
    import yaml

    start, _, rest = text.partition("---\n")
    front, mark, _ = rest.partition("\n---\n")
    try:
        parsed = yaml.safe_load(front) if mark and not start else None
    except yaml.YAMLError as error:
        problems.add("card", f"README.md: the YAML between the first two --- cannot be parsed: {error}")
        return
    configs = parsed.get("configs") if isinstance(parsed, dict) else None
    if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
        problems.add("card", "README.md: there is no YAML with a list of configs between the first two ---")
        return
    expected = _expected_configs(manifest)
    names = [config.get("config_name") for config in configs]
    if sorted(map(str, names)) != sorted(expected):
        wrong = f"the configs are {', '.join(map(str, names)) or 'none'}"
        problems.add("card", f"README.md: {wrong}, not {', '.join(sorted(expected))} as manifest.json gives")
    for config in configs:
        name = str(config.get("config_name"))
        found = {str(f.get("split")): _matched(root, name, f, problems) for f in _data_files(config)}
        for split in sorted({*found, *expected.get(name, {})} if name in expected else ()):
            if found.get(split) != expected[name].get(split):
                wanted = ", ".join(expected[name].get(split, ())) or "none"
                there = ", ".join(found.get(split, ())) or "none"
                problems.add("card", f"README.md: {name}, split {split}, has the files {there}, not {wanted}")


def _expected_configs(manifest: Manifest) -> dict[str, dict[str, list[str]]]:
    """The files of each split of each config that the card must name."""
    expected: dict[str, dict[str, list[str]]] = {}
    for key, _, split in manifest.splits():
        config, _, name = key.partition("/")
        if split.data:
            expected.setdefault(config, {})[name] = sorted(f.path for f in split.data)
        expected.setdefault(f"{config}{INDEX_SUFFIX}", {})[name] = [split.index.path]
    if manifest.duplicates is not None:
        expected[duplicates.CONFIG] = {duplicates.SPLIT: [manifest.duplicates.path]}
    return expected


def _data_files(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    files = config.get("data_files")
    return [file for file in files if isinstance(file, dict)] if isinstance(files, list) else []


def _matched(root: Path, config: str, file: Mapping[str, Any], problems: Problems) -> list[str]:
    """The files that the patterns of one split match, as `load_dataset` finds them."""
    patterns = file.get("path")
    matched: set[str] = set()
    for pattern in patterns if isinstance(patterns, list) else [patterns]:
        here: set[str] = set()
        if isinstance(pattern, str) and pattern and not pattern.startswith("/"):
            here = {path.relative_to(root).as_posix() for path in root.glob(pattern)}
        if not here:
            problems.add("card", f"README.md: {pattern} of config {config} matches no file")
        matched |= here
    return sorted(matched)
