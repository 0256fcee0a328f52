"""Checks files of a release against its manifest and each other: exclusions, the ids of different splits, the card.

Tested by `tests/hf_scripts/checks/test_release.py` and `test_card.py`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from builders.card import card
from builders.card.metadata import front_matter_text
from builders.release.digests import file_sha256
from builders.release.entries import Manifest
from builders.release.layout import CARD, Layout
from builders.release.tables import TableError, images_by_rule, read_excluded
from builders.storage.files import read_regular
from builders.storage.parquet import read_parquet
from hf_scripts.checks.manifest import is_unfinished
from hf_scripts.checks.problems import Problems

MOST_CARD_BYTES = 2_000_000
"""Upper limit on README.md. Ours: ten times the size that `push` sends."""

_DRAWN_FOR = re.compile("drawn for ([^,]+)")
"""Evidence that images are left out because splits have them that draw before (`builders.declare.quotas`)."""

_SHOWN = 200
"""Upper limit on the characters of a text from the card that a message repeats."""


def check_excluded(root: Path, manifest: Manifest, problems: Problems) -> set[tuple[str, str]]:
    """Check for every split that its rows and its excluded images add up to the images of its source.

    Returns pairs of splits that share no image by what the tables say: one leaves out what is drawn for the other.
    """
    keys, disjoint = manifest.by_key(), set[tuple[str, str]]()
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
        by_rule = images_by_rule(lines)
        for line in lines:
            if line.split not in parts:
                if not is_unfinished(root, manifest, line.split.partition(".")[0]):
                    problems.add("exclusions", f"{path}: a line names {line.split}, which is no split of {name}")
            elif line.images and (drawn := _DRAWN_FOR.match(line.evidence)):
                pairs = [(line.split.partition(".")[0], key.partition(".")[0]) for key in drawn[1].split(" or ")]
                disjoint.update(pair for pair in pairs if pair[1] in keys)
        for key, part in parts.items():
            left_out = by_rule[key].total()
            if part.rows + left_out != part.available:
                wrong = (
                    f"{part.rows:,} rows and {left_out:,} excluded images in {path} do not add up to the "
                    f"{part.available:,} images of the source"
                )
            elif part.excluded_by_rule != by_rule[key]:
                wrong = (
                    f"the excluded images by rule differ: {_rules(part.excluded_by_rule)} in manifest.json, "
                    f"{_rules(by_rule[key])} in {path}"
                )
            else:
                continue
            problems.add("exclusions", f"{key}: {wrong}")
    return disjoint


def _rules(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{rule} {images:,}" for rule, images in sorted(counts.items())) or "nothing"


def check_ids(root: Path, manifest: Manifest, disjoint: Collection[tuple[str, str]], problems: Problems) -> None:
    """Check that no id names two images, and that none is in two splits of a config or of a `disjoint` pair.

    All indexes must be readable.
    """
    indexes = {key: root / split.index.path for key, split in manifest.by_key().items()}

    def compare(key: str, ids: pa.ChunkedArray, other: str, other_ids: pa.ChunkedArray) -> None:
        common = ids.filter(pc.is_in(ids, value_set=other_ids))
        if len(common):
            count = f"{len(common):,} ids are" if len(common) > 1 else "1 id is"
            problems.add("id in two splits", f"{key}: {count} also in {other}, for instance {common[0]}")

    for name, config in sorted(manifest.configs.items()):
        of_config = {f"{name}/{split}": _ids(indexes[f"{name}/{split}"]) for split in sorted(config.splits)}
        for other, key in itertools.combinations(of_config, 2):
            compare(key, of_config[key], other, of_config[other])
    for key, other in sorted(disjoint):
        if key.partition("/")[0] != other.partition("/")[0]:
            compare(key, _ids(indexes[key]), other, _ids(indexes[other]))
    rows = pa.concat_tables(read_parquet(path, ["id", "content_sha256"]) for path in sorted(set(indexes.values())))
    contents = rows.group_by("id").aggregate([("content_sha256", "count_distinct")])
    repeated = contents.filter(pc.greater(contents["content_sha256_count_distinct"], 1))["id"]
    if len(repeated):
        count = f"{len(repeated):,} ids are" if len(repeated) > 1 else "1 id is"
        problems.add("id of two images", f"{count} of different images, for instance {repeated[0]}")


def _ids(index: Path) -> pa.ChunkedArray:
    return read_parquet(index, ["id"])["id"]


def check_card(root: Path, manifest: Manifest, problems: Problems) -> None:
    """Check the digest of the card, and that its YAML is byte for byte what the manifest gives.

    No YAML is parsed. What follows the YAML need not be the output of the current template: templates change, and
    published releases do not. `python -m hf_scripts.card --check` compares the two.
    """
    path = Layout(root).inside(CARD)
    if path.exists() and not path.is_file():
        problems.add("card", "README.md: is not a regular file")
        return
    try:
        card_text = read_regular(path, MOST_CARD_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not UTF-8 text (byte {error.start:,})"
        problems.add("card", f"README.md: cannot be read: {reason}")
        return
    front = front_matter_text(manifest)
    if not card_text.startswith(front):
        problems.add("card", _first_difference(front, card_text))
    elif manifest.card is not None and file_sha256(path) != manifest.card.sha256:
        expected = card.card_text(manifest)
        reason = "README.md: the SHA-256 is not the one that manifest.json lists"
        problems.add("card", reason if card_text == expected else _first_difference(expected, card_text))


def _first_difference(expected: str, card_text: str) -> str:
    """Describe the first line of a card that is not the expected one."""
    pairs = enumerate(itertools.zip_longest(card_text.split("\n"), expected.split("\n")), start=1)
    number, lines = next((number, lines) for number, lines in pairs if lines[0] != lines[1])
    shown, expected_line = ("the end" if line is None else line[:_SHOWN] for line in lines)
    return f"README.md line {number}: is {shown!r}, not {expected_line!r} as manifest.json gives"
