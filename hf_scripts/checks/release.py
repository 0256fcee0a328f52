"""Do the parts of a release fit each other? Splits with splits, exclusions with counts, the card with the manifest."""

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
    """Check that what a split keeps and what it leaves out add up to its source."""
    problems = Problems()
    for name, config in sorted(manifest.configs.items()):
        path = config.excluded.path
        if not (root / path).is_file():
            continue  # said where files are checked
        try:
            lines = read_excluded(root / path)
        except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
            problems.add("exclusions", f"{path}: expected a table of exclusions, found other text ({error})")
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
                problems.add("exclusions", f"{path}: expected splits of {name}, found a line of {line.split}")
            else:
                images[line.split] += line.images
                if line.images:
                    rules = by_rule[line.split]
                    rules[line.rule] = rules.get(line.rule, 0) + line.images
        for key, left_out in images.items():
            entry = parts[key]
            if entry.rows + left_out != entry.available:
                sum_ = f"{entry.rows:,} + {left_out:,}"
                expected = f"rows and excluded images to add up to the source's {entry.available:,}"
                problems.add("exclusions", f"{key}: expected {expected}, found {sum_} in {path}")
            elif entry.excluded_by_rule != by_rule[key]:
                problems.add(
                    "exclusions",
                    f"{key}: expected {_rules(entry.excluded_by_rule)} by rule as in manifest.json, found "
                    f"{_rules(by_rule[key])} in {path}",
                )
            elif left_out != entry.excluded:
                problems.add(
                    "exclusions",
                    f"{key}: expected {entry.excluded:,} excluded images, found {left_out:,} in {path}",
                )
    return problems


def _rules(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{rule} {images:,}" for rule, images in sorted(counts.items())) or "nothing"


def check_audit(root: Path, manifest: Manifest) -> Problems:
    """Check that the pairs in the audit file are those that the rows' `near_duplicate_of` name."""
    problems = Problems()
    for name, config in sorted(manifest.configs.items()):
        path = config.audit.path if config.audit is not None else ""
        if not path or not (root / path).is_file():
            continue  # a missing file is said where files are checked
        try:
            lines = read_audit(root / path)
            first: dict[tuple[str, str], str] = {}
            for line in sorted(lines, key=lambda line: (line.split, line.id, float(line.distance))):
                first.setdefault((line.split, line.id), line.near_duplicate_of)
        except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
            problems.add("audit", f"{path}: expected a table of near-duplicates, found other text ({error})")
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
                    f"{key[0]}: expected {key[1]} to repeat {first.get(key) or 'nothing'} as in {path}, found "
                    f"{there.get(key) or 'nothing'} in its row",
                )
    return problems


def check_parts(root: Path, manifest: Manifest) -> Problems:
    """Check that a joined split has as many rows of each role and source as its parts. Its index must be readable."""
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
                of = f"{expected:,} rows of role {role} from {source}"
                problems.add("parts", f"{key}: expected {of} as its parts have, found {there:,}")
    return problems


def check_ids(root: Path, manifest: Manifest) -> Problems:
    """Check that no id stands in two splits of a config. All indexes must be readable."""
    problems = Problems()
    for name, config in sorted(manifest.configs.items()):
        mine = [(f"{name}/{split}", entry) for split, entry in sorted(config.splits.items())]
        _check_ids(root, mine, problems)
    return problems


def check_card(root: Path, manifest: Manifest) -> Problems:
    """Check that the card is the one that the manifest lists, and that its YAML leads `load_dataset` to every file.

    The card need not be what today's template gives, because templates move on and published releases do not;
    `python -m hf_scripts.card --check` compares with the template.
    """
    problems = Problems()
    path = Layout(root).card
    try:
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        problems.add("card", f"README.md: expected the dataset card, found {reason}")
        return problems
    _check_front_matter(root, manifest, found, problems)
    if manifest.card is not None and file_sha256(path) != manifest.card.sha256:
        problems.merge(_edited(manifest, found))
    return problems


def _edited(manifest: Manifest, found: str) -> Problems:
    """Say where a card differs from what today's template gives; if nowhere, that its digest is another."""
    problems = Problems()
    expected = card.render(manifest)
    if found == expected:
        problems.add("card", "README.md: expected the card with the SHA-256 in manifest.json, found another")
    else:
        wanted, there = expected.split("\n"), found.split("\n")
        pairs = zip([*wanted, ""], [*there, ""], strict=False)
        line = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(wanted), len(there)))
        texts = [lines[line] if line < len(lines) else "the end" for lines in (wanted, there)]
        problems.add(
            "card", f"README.md line {line + 1}: expected {texts[0]!r} as manifest.json has it, found {texts[1]!r}"
        )
    return problems


def _check_ids(root: Path, mine: Sequence[tuple[str, SplitEntry]], problems: Problems) -> None:
    seen: list[tuple[str, pa.ChunkedArray]] = []
    for key, split in mine:
        ids = pq.read_table(root / split.index.path, columns=["id"])["id"]
        for other, others in seen:
            both = ids.filter(pc.is_in(ids, value_set=others))
            if len(both):
                found = f"found {len(both):,}, for instance {both[0]}"
                problems.add("id in two splits", f"{key}: expected no id that is also in {other}, {found}")
        seen.append((key, ids))


def _check_front_matter(root: Path, manifest: Manifest, text: str, problems: Problems) -> None:
    import yaml

    start, _, rest = text.partition("---\n")
    front, mark, _ = rest.partition("\n---\n")
    try:
        parsed = yaml.safe_load(front) if mark and not start else None
    except yaml.YAMLError as error:
        problems.add(
            "card", f"README.md: expected YAML between the first two ---, found text that does not parse: {error}"
        )
        return
    configs = parsed.get("configs") if isinstance(parsed, dict) else None
    if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
        problems.add("card", "README.md: expected YAML with a list of configs between the first two ---, found none")
        return
    expected = _expected_configs(manifest)
    names = [config.get("config_name") for config in configs]
    if sorted(map(str, names)) != sorted(expected):
        problems.add(
            "card",
            f"README.md: expected the configs {', '.join(sorted(expected))}; found {', '.join(map(str, names))}",
        )
    for config in configs:
        name = str(config.get("config_name"))
        found = {str(f.get("split")): _matched(root, name, f, problems) for f in _data_files(config)}
        for split in sorted({*found, *expected.get(name, {})} if name in expected else ()):
            if found.get(split) != expected[name].get(split):
                wanted = ", ".join(expected[name].get(split, ())) or "nothing"
                there = ", ".join(found.get(split, ())) or "nothing"
                problems.add("card", f"README.md: expected {name}, split {split}, to name {wanted}; found {there}")


def _expected_configs(manifest: Manifest) -> dict[str, dict[str, list[str]]]:
    """Files by split by config name, as the card must name them."""
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
    """Files that the patterns of one split match, as `load_dataset` would find them."""
    patterns = file.get("path")
    matched: set[str] = set()
    for pattern in patterns if isinstance(patterns, list) else [patterns]:
        here: set[str] = set()
        if isinstance(pattern, str) and pattern and not pattern.startswith("/"):
            here = {path.relative_to(root).as_posix() for path in root.glob(pattern)}
        if not here:
            problems.add("card", f"README.md: expected {pattern} of config {config} to match files, found none")
        matched |= here
    return sorted(matched)
