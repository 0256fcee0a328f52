"""Reads, checks and writes the manifest of a release, `manifest.json`.

A manifest may come from anyone. `parse` refuses whatever is not a manifest of this format: its result has the types of
`builders.release.entries`, paths in the release's folders, counts that add up, and references that resolve. The files
themselves are checked by `python -m hf_scripts.verify`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from builders.errors import BuildError
from builders.release.digests import file_sha256
from builders.release.duplicates import CONFIG
from builders.release.entries import EMPTY, FORMAT, OPEN, ConfigEntry, FileEntry, Manifest, SourceEntry, SplitEntry
from builders.release.layout import (
    CARD,
    CHANGELOG,
    CHANGES,
    DESCRIPTIONS,
    INDEX_SUFFIX,
    MANIFEST,
    SEALED_SUFFIX,
    Layout,
    shows_images,
)
from builders.release.schema import KNOWN_COLUMNS, PREPARED_SHA256
from builders.release.values import NAME, PATTERNS
from builders.storage.files import read_regular, replace_unless_changed
from unknown_detection.words import printable

SHARD_NUMBER = re.compile(r"-\d{5}-of-(?=\d{5}\.parquet$)")
"""The part of a shard's file name (`shard_path`) that differs between the shards of a split."""

_CHANGES = re.compile(rf"{CHANGES}/[A-Za-z0-9._+-]+\.csv")

MOST_BYTES = 64_000_000
"""Upper limit on the size of manifest.json. Ours: parsing as much takes about a gigabyte."""

_MOST_REASON = 300
_SHOWN = 40
"""Upper limit on the characters of an arbitrary value that a message repeats."""

_DESCRIBED = {"card": "card", "croissant": "Croissant metadata", "licences": "file of licences"}
"""Fields of `DESCRIPTIONS` in words."""

_OWN_CONFIGS = {INDEX_SUFFIX: "an index", SEALED_SUFFIX: "sealed residuals", CONFIG: "the table of duplicates"}
"""Configs that the card has besides those of the manifest, by the suffix or the whole of their names."""


class ManifestError(BuildError):
    """A `manifest.json` that is not a valid manifest; `reason` says where in the file, and why."""

    def __init__(self, where: str, reason: str) -> None:
        shown = printable(reason)
        self.reason = shown if len(shown) <= _MOST_REASON else f"{shown[:_MOST_REASON]}..."
        super().__init__(f"Cannot use {where}: {self.reason}. Build or download the release again.")


def file_entry(layout: Layout, path: Path) -> FileEntry:
    """Return the manifest's entry of a file."""
    return FileEntry(layout.relative(path), path.stat().st_size, file_sha256(path))


def read_manifest(root: Path, name: str = "") -> Manifest:
    """Read the manifest of a release folder, which messages call `name` if that is given."""
    path = Layout(root).inside(MANIFEST)
    try:
        data = read_regular(path, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not name and not root.is_dir():
            state = "is a file, not a folder" if root.exists() else "does not exist"
            raise BuildError(f"{root} {state}. Give the folder of a release.") from error
        raise BuildError(
            f"{name or root} is not a release: it has no manifest.json. Build one there first."
        ) from error
    except OSError as error:
        raise BuildError(
            f"Cannot read {path}: {error.strerror}. Restore it and run the same command again."
        ) from error
    return parse(data, f"the manifest.json of {name}" if name else str(path))


def read_or_empty(root: Path) -> Manifest:
    """Return the manifest of a release folder; one without splits if nothing was built there yet."""
    return read_manifest(root) if Layout(root).inside(MANIFEST).exists() else EMPTY


def parse(data: bytes, where: str) -> Manifest:
    """Parse and check a manifest from an untrusted file; `where` names the file in messages.

    Raises:
        ManifestError: it is not valid; the message names the first problem and its place.
        BuildError: it has a format that this version does not know.
    """
    try:
        parsed = json.loads(data.decode(), object_pairs_hook=_without_repeated_keys)
    except RecursionError as error:
        raise ManifestError(where, "its JSON is nested too deeply") from error
    except ValueError as error:
        raise ManifestError(where, f"it is not valid JSON ({error})") from error
    if isinstance(parsed, dict):
        version = parsed.get("format")
        if type(version) is not int or version != FORMAT:
            shown = printable(str(version))[:_SHOWN] if isinstance(version, int | float | str) else "not a number"
            raise BuildError(
                f"Cannot read {where}: its format is {shown}, and this version reads {FORMAT}. Use the version that "
                "wrote it."
            )
    try:
        manifest = msgspec.convert(parsed, Manifest)
    except msgspec.ValidationError as error:
        raise ManifestError(where, _explained(error)) from error
    except UnicodeEncodeError as error:
        raise ManifestError(where, "a key contains a lone surrogate, which is not a character") from error
    wrong = next(_contradictions(manifest), None)
    if wrong is not None:
        raise ManifestError(where, wrong)
    return manifest


def dump(manifest: Manifest) -> str:
    """Return the text of a manifest, with sorted keys and no times, so that equal releases have equal texts."""
    return json.dumps(msgspec.to_builtins(manifest), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def valid_text(root: Path, manifest: Manifest) -> str:
    """Return the text of a release folder's manifest, after checking that it is valid.

    Raises:
        BuildError: it would not be valid; the message says what, such as control characters in a file's name.
    """
    path, text = Layout(root).inside(MANIFEST), dump(manifest)
    try:
        parse(text.encode("utf-8", "surrogatepass"), str(path))
    except ManifestError as error:
        raise BuildError(
            f"Cannot write {path}, which would not be valid: {error.reason}. Change it and run the same command again."
        ) from error
    return text


def write_manifest(root: Path, manifest: Manifest, before: Manifest | None = None) -> None:
    """Write the manifest of a release folder; raises as `valid_text`.

    In a store, only the manifest `before`, which was read, or none if that is `EMPTY`, is replaced; None replaces any.
    """
    path, text = Layout(root).inside(MANIFEST), valid_text(root, manifest)
    replace_unless_changed(
        path,
        text.encode("utf-8"),
        lambda data: before in (None, EMPTY if data is None else parse(data, str(path))),
    )


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"the key {key!r} is repeated in one object")
        mapping[key] = value
    return mapping


def _explained(error: msgspec.ValidationError) -> str:
    """Return msgspec's message with the place first, and words for a pattern."""
    problem, _, place = str(error).partition(" - at ")
    for pattern, words in PATTERNS.items():
        problem = problem.replace(f"`str` matching regex {pattern!r}", words)
    place = place.replace("`", "").replace("$.", "")
    return f"{place}{': ' if place else ''}{problem[:1].lower()}{problem[1:]}"


# Checks beyond types


def _contradictions(manifest: Manifest) -> Iterator[str]:
    """Yield references that do not resolve, paths outside the folders, and counts that do not add up."""
    if not manifest.configs:
        yield "it has no config"
    for name, config in sorted(manifest.configs.items()):
        if kind := kind_of_own_config(name):
            yield f"{name} cannot name a config: the card has one of that name for {kind}"
        if config.benchmark not in manifest.benchmarks:
            yield f"{name} belongs to the benchmark {config.benchmark}, which it does not describe"
        yield from _wrong_config(name, config)
    for key, config, split in manifest.splits():
        yield from _wrong_split(key, split, manifest.sources)
        yield from _wrong_sealing(key, config, split)
    splits = manifest.by_key()
    for audit_key, audit in sorted(manifest.audits.items()):
        if audit.chart is not None and shows_images(audit.chart.path):
            yield f"it lists {audit.chart.path}, a picture of images, which is never published"
        for name, digest in sorted(audit.splits.items()):
            if name not in splits or splits[name].digest != digest:
                yield f"the audit {audit_key} is of rows that {name} does not have"
    for file, path, what in manifest.places():
        if file.path != path:
            yield f"{what} is {file.path}, not {path}"
    if manifest.card is None:
        yield f"it lists no {CARD}"
    for field, listed in manifest.descriptions().items():
        if listed.path != DESCRIPTIONS[field]:
            yield f"its {_DESCRIBED[field]} is {listed.path}, not {DESCRIPTIONS[field]}"
    if manifest.repository is not None and manifest.version is None:
        yield "it names a repository, but no version that was published there"
    if manifest.published is not None and manifest.version is None:
        yield "it names a day of publication, but no version that was published then"
    if (manifest.version is None) != (manifest.previous is None) or (manifest.version and not manifest.changelog):
        yield "it has some of version, previous and changelog, but not all"
    for file in manifest.changelog or ():
        if file.path != CHANGELOG and not _CHANGES.fullmatch(file.path):
            yield f"the changelog's {file.path} is neither {CHANGELOG} nor in {CHANGES}/"


def kind_of_own_config(name: str) -> str:
    """Return what the card uses a config of this name for, if it is one that the card adds; else an empty text."""
    kinds = [kind for own, kind in _OWN_CONFIGS.items() if name == own or (own != CONFIG and name.endswith(own))]
    return kinds[0] if kinds else ""


def _wrong_config(name: str, config: ConfigEntry) -> Iterator[str]:
    if not config.label_names or len(set(config.label_names)) != len(config.label_names):
        yield f"label_names of {name} are empty or repeat a name"
    if not config.splits:
        yield f"{name} has no split"
    names = [column.name for column in config.columns]
    if len(set(names)) != len(names):
        yield f"columns of {name}: a name is repeated in {', '.join(names)}"
    for column in config.columns:
        if KNOWN_COLUMNS.get(column.name, column) != column or (column.nullable and column.name not in KNOWN_COLUMNS):
            yield f"columns of {name}: {column.name} is not the column that other releases have of that name"


def _wrong_split(key: str, split: SplitEntry, sources: Mapping[str, SourceEntry]) -> Iterator[str]:
    named = [part.key.removeprefix(f"{key}.") for part in split.parts if part.key.startswith(f"{key}.")]
    is_joined = len({*named}) == len(split.parts) and all(re.match(NAME, name) for name in named)
    if [part.key for part in split.parts] != [key] and not is_joined:
        yield f"the parts of {key} do not each have a key of their own, {key}.NAME, nor is its one part {key}"
    for part in split.parts:
        if part.source not in sources:
            yield f"{key} has rows of the source {part.source}, which it does not describe"
    parameters = split.generator.parameters if split.generator is not None else {}
    for name, value in parameters.items():
        if isinstance(value, float) and not math.isfinite(value):
            yield f"the parameter {name} of the generator of {key} is {value}"
    if split.samples is not None and not split.data:
        yield f"{key} has a picture of its images, but no images"
    is_open = any(name in sources and sources[name].licence.publish == OPEN for name in split.sources)
    if split.samples is not None and not is_open:
        yield f"{key} has a picture of its images, but the licence of no source lets them be public"


def _wrong_sealing(key: str, config: ConfigEntry, split: SplitEntry) -> Iterator[str]:
    generator = split.generator
    preparation = None if generator is None else generator.sealed
    if generator is None or preparation is None:
        if split.sealed:
            yield f"{key} has sealed residuals, but its generator does not say how originals are prepared"
        return
    if not generator.prepared == preparation.size <= preparation.resize:
        yield (
            f"the generator of {key} crops originals to {preparation.size} of {preparation.resize} pixels, for images "
            f"of {generator.prepared}"
        )
    if (PREPARED_SHA256.name, PREPARED_SHA256.type) not in {(c.name, c.type) for c in config.columns}:
        yield f"{key} is sealed, but its config lacks the column {PREPARED_SHA256.name}"
