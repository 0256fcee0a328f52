"""Checks the dataset card: its digest, and that its YAML gives `load_dataset` every listed file and no other."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from builders.card import card
from builders.errors import more
from builders.release import duplicates
from builders.release.digests import file_sha256
from builders.release.entries import Manifest
from builders.release.layout import INDEX_SUFFIX, SEALED_SUFFIX, Layout
from builders.storage.regular import read_regular
from hf_scripts.checks.front_matter import FrontMatterError, read_front_matter
from hf_scripts.checks.manifest import check_file, release_files
from hf_scripts.checks.problems import Problems

MOST_BYTES = 2_000_000
"""Upper limit on README.md. Ours: ten times the size that `push` sends."""

_NAMED = 5
_SHOWN = 200
"""Upper limit on the characters of a text from the card that a message repeats."""


def check_card(root: Path, manifest: Manifest, unread: Collection[str] = ()) -> Problems:
    """Check the digest of the card, and that its YAML gives `load_dataset` every listed file and no other.

    The card need not equal the output of the current template: templates change, and published releases do not.
    `python -m hf_scripts.card --check` compares the two.

    Args:
        root: the release.
        manifest: its manifest.
        unread: paths of listed files that are not checked and need not be there.
    """
    problems = Problems()
    path = Layout(root).card
    if path.exists() and not path.is_file():
        problems.add("card", "README.md: is not a regular file")
        return problems
    try:
        found = read_regular(path, MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not UTF-8 text (byte {error.start:,})"
        problems.add("card", f"README.md: cannot be read: {reason}")
        return problems
    try:
        files = sorted({*release_files(root), *unread})
        _check_configs(files, manifest, read_front_matter(found), problems)
    except FrontMatterError as error:
        problems.add("card", f"README.md: {error}")
    if manifest.card is not None and file_sha256(path) != manifest.card.sha256:
        problems.merge(_edited(manifest, found))
    return problems


def check_croissant(root: Path, manifest: Manifest) -> Problems:
    """Check the size and the digest of the Croissant metadata, which older releases lack."""
    return check_file(root, manifest.croissant) if manifest.croissant is not None else Problems()


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
        texts = [lines[line][:_SHOWN] if line < len(lines) else "the end" for lines in (wanted, there)]
        problems.add("card", f"README.md line {line + 1}: is {texts[1]!r}, not {texts[0]!r} as manifest.json gives")
    return problems


def _check_configs(files: Sequence[str], manifest: Manifest, front: Mapping[str, Any], problems: Problems) -> None:
    configs = front.get("configs")
    if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
        problems.add("card", "README.md: the YAML has no list of configs")
        return
    expected = _expected_configs(manifest)
    found = _by_name("config", ((config.get("config_name"), config.get("data_files")) for config in configs), problems)
    _check_names("config", expected, found, problems)
    for name in sorted(expected.keys() & found.keys()):
        listed = found[name]
        files_of = [file for file in listed if isinstance(file, dict)] if isinstance(listed, list) else []
        entries = [(file.get("split"), file.get("path")) for file in files_of]
        splits = _by_name(f"{name}, split", entries, problems)
        _check_names(f"{name}, split", expected[name], splits, problems)
        for split in sorted(expected[name].keys() & splits.keys()):
            wanted = expected[name][split]
            there = _matched(files, name, splits[split], len(wanted), problems)
            if there is not None and there != wanted:
                problems.add(
                    "card", f"README.md: {name}, split {split}, has the files {_list(there)}, not {_list(wanted)}"
                )


def _by_name(kind: str, entries: Iterable[tuple[object, object]], problems: Problems) -> dict[str, object]:
    """Entries of the card by their names; entries without one, and repeated names, are problems."""
    found: dict[str, object] = {}
    for name, value in entries:
        if not isinstance(name, str):
            problems.add("card", f"README.md: a {kind} has no name")
        elif name in found:
            problems.add("card", f"README.md: {kind} {name[:_SHOWN]} is repeated")
        else:
            found[name] = value
    return found


def _check_names(kind: str, expected: Collection[str], found: Collection[str], problems: Problems) -> None:
    for names, wrong in (
        (sorted(set(expected) - set(found)), "is missing"),
        (sorted(set(found) - set(expected)), "is not in manifest.json"),
    ):
        for name in names:
            problems.add(f"card: {wrong}", f"README.md: {kind} {name[:_SHOWN]} {wrong}")


def _expected_configs(manifest: Manifest) -> dict[str, dict[str, list[str]]]:
    """The files of each split of each config that the card must name."""
    expected: dict[str, dict[str, list[str]]] = {}
    for key, _, split in manifest.splits():
        config, _, name = key.partition("/")
        if split.data:
            expected.setdefault(config, {})[name] = sorted(f.path for f in split.data)
        expected.setdefault(f"{config}{INDEX_SUFFIX}", {})[name] = [split.index.path]
        if split.sealed:
            expected.setdefault(f"{config}{SEALED_SUFFIX}", {})[name] = sorted(f.path for f in split.sealed)
    if manifest.duplicates is not None:
        expected[duplicates.CONFIG] = {duplicates.SPLIT: [manifest.duplicates.path]}
    return expected


def _matched(files: Sequence[str], config: str, path: object, wanted: int, problems: Problems) -> list[str] | None:
    """The files that the patterns of one split match, as `load_dataset` finds them; None if there are too many."""
    patterns = path if isinstance(path, list) else [path]
    if len(patterns) > wanted:
        problems.add("card", f"README.md: config {config} has {len(patterns):,} patterns for {wanted:,} files")
        return None
    matched: set[str] = set()
    for pattern in patterns:
        reason = _unusable(pattern)
        here = [] if reason else match(files, str(pattern))
        if not here:
            shown = str(pattern)[:_SHOWN] if isinstance(pattern, str) else "a pattern"
            problems.add("card", f"README.md: {shown} of config {config} {reason or 'matches no file'}")
        matched.update(here)
    return sorted(matched)


def _unusable(pattern: object) -> str:
    """The reason why a pattern cannot name files of the release; empty if it can."""
    if not isinstance(pattern, str):
        return "is not text"
    parts = pattern.split("/")
    if (
        not pattern
        or pattern.startswith(("/", "~"))
        or "\\" in pattern
        or ":" in pattern
        or {"", ".", ".."} & {*parts}
    ):
        return "is not a path inside the release"
    if len(pattern) > _SHOWN or any("**" in part and part != "**" for part in parts):
        return "is not a valid pattern"  # fsspec refuses ** as a part of a name
    return ""


def match(files: Sequence[str], pattern: str) -> list[str]:
    """The paths that match a glob pattern, as fsspec reads it: `*` within a name, `**` across folders.

    Args:
        files: sorted paths with forward slashes.
        pattern: a pattern; without a wildcard it names one file.
    """
    plain = pattern[: min((at for at in map(pattern.find, "*?[") if at >= 0), default=len(pattern))]
    first = bisect_left(files, plain)
    if plain == pattern:
        return [pattern] if files[first : first + 1] == [pattern] else []
    last = bisect_left(files, plain + "\U0010ffff", lo=first)
    parts = pattern.split("/")
    return [file for file in files[first:last] if _matches(file.split("/"), parts)]


def _matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the names of a path match the parts of a pattern; `reached` are the positions in it after each name."""
    reached = _behind_stars({0}, parts)
    for name in names:
        after = {at for at in reached if at < len(parts) and parts[at] == "**"}
        after |= {at + 1 for at in reached if at < len(parts) and parts[at] != "**" and fnmatchcase(name, parts[at])}
        reached = _behind_stars(after, parts)
    return len(parts) in reached


def _behind_stars(reached: set[int], parts: Sequence[str]) -> set[int]:
    """The positions, and those after a `**` that matches no folder."""
    found = set(reached)
    for at in sorted(reached):
        while at < len(parts) and parts[at] == "**":
            at += 1
            found.add(at)
    return found


def _list(paths: Sequence[str]) -> str:
    return (", ".join(paths[:_NAMED]) + more(paths, _NAMED)) or "none"
