"""Which version a release deserves: semantic versioning (semver.org, 2.0.0) of what a reader of the rows sees.

| change | at least |
|---|---|
| rows changed or removed, another order, other labels, a split, column or a split's images gone | major |
| new splits or configs, new columns, a first table of duplicates, images for a split that had only its index | minor |
| anything else: the card, licences, descriptions, files written anew with the same rows | patch |

Rows that a split gains change its digest and every number computed on it, so they are major too. A tag is `v` and a
version; a version may be higher than its changes need.
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
from builders.release.entries import Manifest

_TAG = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)

_FILE_KEYS = {"path", "bytes", "sha256"}


class Version(NamedTuple):
    """A version as a tag names it, in the order of precedence."""

    major: int
    minor: int
    patch: int

    @property
    def tag(self) -> str:
        """The tag of this version."""
        return f"v{self}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def next(self, level: str) -> Version:
        """The first version after this one that may hold a change of a level."""
        if level == "major":
            return Version(self.major + 1, 0, 0)
        if level == "minor":
            return Version(self.major, self.minor + 1, 0)
        return Version(self.major, self.minor, self.patch + 1)


def version_of(tag: str) -> Version | None:
    """The version that a tag names; None for any other tag."""
    match = _TAG.fullmatch(tag)
    return Version(*map(int, match.groups())) if match else None


def requested_version(tag: str) -> Version:
    """The version of a tag that a person gave.

    Raises:
        BuildError: it is none.
    """
    version = version_of(tag)
    if version is None:
        raise BuildError(f"expected a tag such as v1.0.0 for --tag, found {tag}; give three numbers after a v.")
    return version


def latest(tags: Iterable[str]) -> Version | None:
    """The highest version among some tags, of which others may be no versions."""
    return max((version for tag in tags if (version := version_of(tag))), default=None)


@dataclass(frozen=True)
class Changes:
    """What differs between two manifests, by what it asks of the version. Sorted, in words for a person.

    `added`, `removed` and `changed` are the splits (`config/split`) whose rows do.
    """

    major: tuple[str, ...] = ()
    minor: tuple[str, ...] = ()
    patch: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """`major`, `minor`, `patch`, or an empty text where nothing differs."""
        return next((level for level in ("major", "minor", "patch") if getattr(self, level)), "")

    def reason(self) -> str:
        """The first change of the highest level, and how many more there are."""
        found = getattr(self, self.level) if self.level else ()
        more = f" and {len(found) - 1:,} more such change{'' if len(found) == 2 else 's'}" if len(found) > 1 else ""
        return f"{found[0]}{more}" if found else "nothing differs"


def compare(old: Manifest, new: Manifest) -> Changes:
    """Find what differs between a published manifest and one to publish."""
    before, after = old.by_key(), new.by_key()
    major = [f"{key} is gone" for key in before.keys() - after.keys()]
    minor = [f"{key} is new" for key in after.keys() - before.keys()]
    changed = []
    for key in sorted(before.keys() & after.keys()):
        was, now = before[key], after[key]
        if was.digest != now.digest:
            changed.append(key)
            major.append(f"{key} has other rows")
        if was.data and not now.data:
            major.append(f"{key} loses its images")
        if now.data and not was.data:
            minor.append(f"{key} gets its images")
    if new.duplicates is not None and old.duplicates is None:
        minor.append(f"{CONFIG} is new")
    kept = before.keys() & after.keys() - set(changed)
    for name in sorted(old.configs.keys() & new.configs.keys()):
        had, has = ({(c.name, c.type) for c in m.configs[name].own_columns()} for m in (old, new))
        if old.configs[name].label_names != new.configs[name].label_names:
            major.append(f"{name} has other label names")
        major += [f"{name} loses the column {column}" for column, _ in had - has]
        minor += [f"{name} gets the column {column}" for column, _ in has - had]
    return Changes(
        tuple(sorted(major)),
        tuple(sorted(minor)),
        tuple(_metadata(old, new, kept)),
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(changed),
    )


def check_version(requested: Version, last: Version | None, changes: Changes) -> None:
    """Refuse a version that its changes do not deserve.

    Args:
        requested: the version to publish.
        last: the highest that is published; None before the first, for which any will do.
        changes: what differs from `last`.

    Raises:
        BuildError: naming the smallest tag that would do.
    """
    if last is None:
        return
    if not changes.level:
        raise BuildError(
            f"expected something that differs from {last.tag} to publish as {requested.tag}, found the same release; "
            f"{last.tag} is what readers should name."
        )
    smallest = last.next(changes.level)
    if requested < smallest:
        raise BuildError(
            f"expected a version of at least {smallest.tag} after {last.tag}, because {changes.reason()}, which is a "
            f"{changes.level} change, found {requested.tag}; publish with --tag {smallest.tag}."
        )


def unpublished(manifest: Manifest) -> Manifest:
    """A manifest without what publishing sets, and without the card, which follows from all else."""
    return replace(manifest, card=None, version=None, previous=None, changelog=None)


def without_unused(manifest: Manifest) -> Manifest:
    """Leave out benchmarks and sources that no split has."""
    benchmarks = {config.benchmark for config in manifest.configs.values()}
    sources = {source for _, _, split in manifest.splits() for source in split.sources}
    return replace(
        manifest,
        benchmarks={key: entry for key, entry in manifest.benchmarks.items() if key in benchmarks},
        sources={key: entry for key, entry in manifest.sources.items() if key in sources},
    )


def _metadata(old: Manifest, new: Manifest, kept: Set[str]) -> list[str]:
    """Places in the manifest that differ, apart from splits that differ as a whole; `kept` are those that do not."""
    found = sorted(_differences(_described(old, kept), _described(new, kept), ""))
    cards = [manifest.card.sha256 for manifest in (old, new) if manifest.card is not None]
    return found or (["README.md"] if len(set(cards)) == 2 else [])


def _described(manifest: Manifest, kept: Set[str]) -> object:
    """A manifest as JSON, without what publishing sets, the splits that are not kept, and what only those use."""
    configs = {}
    for name, config in manifest.configs.items():
        splits = {split: entry for split, entry in config.splits.items() if f"{name}/{split}" in kept}
        if splits:
            configs[name] = replace(config, splits=splits)
    return msgspec.to_builtins(without_unused(replace(unpublished(manifest), configs=configs)))


def _differences(old: object, new: object, place: str) -> Iterator[str]:
    if old == new:
        return
    # What a file is told by changes together.
    if isinstance(old, Mapping) and isinstance(new, Mapping) and not old.keys() >= _FILE_KEYS:
        for key in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(key), new.get(key), f"{place}.{key}" if place else key)
    else:
        yield place
