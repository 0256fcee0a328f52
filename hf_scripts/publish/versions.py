"""Versions of a release: semantic versioning (semver.org, 2.0.0), by what a change means for a reader of the rows.

| change | level |
|---|---|
| rows added to a split, changed, removed or reordered; other labels; a split, column or images removed | major |
| new splits, configs or columns; a first table of duplicates; images for a split that had only its index | minor |
| anything else: card, licences, descriptions, rewritten files with the same rows | patch |

Rows added to a split are a major change because they change every result on it. A tag is `v` and a version. A version
may be higher than its changes require.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from builders.errors import BuildError
from builders.release.duplicates import CONFIG
from builders.release.entries import ConfigEntry, Manifest, SplitEntry, without_outdated_audits
from builders.release.layout import DESCRIPTIONS
from unknown_detection.words import quantity

_TAG = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)

_FILE_KEYS = {"path", "bytes", "sha256"}


class Version(NamedTuple):
    """A version, ordered by precedence."""

    major: int
    minor: int
    patch: int

    @property
    def tag(self) -> str:
        """The tag of the version."""
        return f"v{self}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def next(self, level: str) -> Version:
        """Return the lowest version after this one for a change of the given level."""
        if level == "major":
            return Version(self.major + 1, 0, 0)
        if level == "minor":
            return Version(self.major, self.minor + 1, 0)
        return Version(self.major, self.minor, self.patch + 1)


def parse_version(tag: str) -> Version | None:
    """Return the version of a tag; None if the tag is not a version."""
    match = _TAG.fullmatch(tag)
    return Version(*map(int, match.groups())) if match else None


def requested_version(tag: str) -> Version:
    """Return the version of a tag given on the command line."""
    version = parse_version(tag)
    if version is None:
        raise BuildError(f"The tag {tag} is not a version. Give a v and three numbers with --tag, such as v1.0.0.")
    return version


def latest(tags: Iterable[str]) -> Version | None:
    """Return the highest version among the tags; other tags are ignored."""
    return max((version for tag in tags if (version := parse_version(tag))), default=None)


@dataclass(frozen=True)
class Changes:
    """The differences between two manifests, by level; each is a sorted tuple of phrases for the user.

    `splits` are those (`config/split`) that are new or gone or have other rows, sorted.
    """

    major: tuple[str, ...] = ()
    minor: tuple[str, ...] = ()
    patch: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """The highest level with a change: `major`, `minor` or `patch`; empty if nothing differs."""
        return next((level for level in ("major", "minor", "patch") if getattr(self, level)), "")

    def reason(self) -> str:
        """Return the first change of the highest level, and the number of others."""
        changes = getattr(self, self.level) if self.level else ()
        more = f" and {quantity(len(changes) - 1, 'more such change')}" if len(changes) > 1 else ""
        return f"{changes[0]}{more}" if changes else "nothing differs"


def compare_manifests(old: Manifest, new: Manifest) -> Changes:
    """Compare a published manifest with one to publish."""
    before, after = old.by_key(), new.by_key()
    major = [f"{key} is gone" for key in before.keys() - after.keys()]
    minor = [f"{key} is new" for key in after.keys() - before.keys()]
    unchanged = {key for key in before.keys() & after.keys() if before[key].digest == after[key].digest}
    for key in sorted(before.keys() & after.keys()):
        old_split, new_split = before[key], after[key]
        if key not in unchanged:
            major.append(f"{key} has other rows")
        if old_split.data and not new_split.data:
            major.append(f"{key} loses its images")
        if new_split.data and not old_split.data:
            minor.append(f"{key} gets its images")
        if old_split.sealed and not new_split.sealed:
            major.append(f"{key} loses its sealed residuals")
        if new_split.sealed and not old_split.sealed:
            minor.append(f"{key} gets sealed residuals")
    if new.duplicates is not None and old.duplicates is None:
        minor.append(f"{CONFIG} is new")
    for name in sorted(old.configs.keys() & new.configs.keys()):
        old_columns, new_columns = ({(c.name, c.type) for c in m.configs[name].columns} for m in (old, new))
        if old.configs[name].label_names != new.configs[name].label_names:
            major.append(f"{name} has other label names")
        major += [f"{name} loses the column {column}" for column, _ in old_columns - new_columns]
        minor += [f"{name} gets the column {column}" for column, _ in new_columns - old_columns]
    # Metadata: the paths of differing values, of the splits only in those with the same rows.
    patch = sorted(_differences(_described(old, unchanged), _described(new, unchanged), ""))
    if not patch:
        was, now = old.descriptions(), new.descriptions()
        patch = [was[name].path for name in DESCRIPTIONS if name in was.keys() & now.keys() and was[name] != now[name]]
    splits = sorted((before.keys() | after.keys()) - unchanged)
    return Changes(tuple(sorted(major)), tuple(sorted(minor)), tuple(patch), tuple(splits))


def check_version(requested: Version, last: Version | None, changes: Changes) -> None:
    """Check that a version is high enough for its changes."""
    if last is None:
        return
    if not changes.level:
        raise BuildError(
            f"Nothing differs from {last.tag}, so there is nothing to publish as {requested.tag}. Use {last.tag}."
        )
    smallest = last.next(changes.level)
    if requested < smallest:
        raise BuildError(
            f"The version {requested.tag} is too low: since {last.tag}, {changes.reason()}, which is a "
            f"{changes.level} change. Publish with --tag {smallest.tag} or higher."
        )


def unpublished(manifest: Manifest) -> Manifest:
    """Return a manifest without the fields that publishing sets, and without the files that are made from the rest."""
    fields = (*DESCRIPTIONS, "repository", "version", "previous", "published", "changelog")
    return replace(manifest, **dict.fromkeys(fields))


def without_unused(manifest: Manifest) -> Manifest:
    """Return a manifest without benchmarks and sources that no split uses, and without outdated audits."""
    benchmarks = {config.benchmark for config in manifest.configs.values()}
    sources = {source for _, _, split in manifest.splits() for source in split.sources}
    return replace(
        without_outdated_audits(manifest),
        benchmarks={key: entry for key, entry in manifest.benchmarks.items() if key in benchmarks},
        sources={key: entry for key, entry in manifest.sources.items() if key in sources},
    )


def _described(manifest: Manifest, selected: Set[str]) -> object:
    """Return a manifest as JSON, without the fields that publishing sets, and with only the splits in `selected`."""
    chosen = replace(unpublished(manifest), configs=configs_of(manifest, selected))
    return msgspec.to_builtins(without_unused(chosen))


def configs_of(manifest: Manifest, selected: Set[str]) -> dict[str, ConfigEntry]:
    """Return the configs with selected splits (`config/split`), each reduced to these splits."""
    splits_of: dict[str, dict[str, SplitEntry]] = {}
    for key, _, entry in manifest.splits():
        if key in selected:
            config, _, name = key.partition("/")
            splits_of.setdefault(config, {})[name] = entry
    return {name: replace(manifest.configs[name], splits=splits) for name, splits in splits_of.items()}


def _differences(old: object, new: object, place: str) -> Iterator[str]:
    if old == new:
        return
    # Size and digest of a file change together.
    if isinstance(old, Mapping) and isinstance(new, Mapping) and not old.keys() >= _FILE_KEYS:
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), f"{place}.{key}" if place else key)
    else:
        yield place
