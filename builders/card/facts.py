"""Facts about a release for its card and Croissant metadata, computed from the manifest.

Tested by `tests/hf_scripts/test_card.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from builders.card.words import role_order, rule_meaning
from builders.release.columns import Column
from builders.release.entries import OPEN, BenchmarkEntry, ConfigEntry, Manifest, SourceEntry
from builders.release.layout import INDEX_SUFFIX
from builders.release.schema import ROLES, SHIFT_ROLES, Role
from builders.release.split_entries import SplitEntry, pieces_by_key
from taxonomy import tables
from unknown_detection.words import byte_text

_FIELD = r"(?m)^\s*{}\s*=\s*[{{\"]+([^}}\"]+)"
_WNID = re.compile(r"n\d{8}")

MOST_CLASSES = 400
"""Most classes that the card lists (ours): Places365's are, the 1,000 of ImageNet would be a fifth of a card."""


@dataclass(frozen=True)
class BenchmarkFacts:
    """A benchmark in the release: its key, its entry, links to its paper, and the configs that belong to it."""

    key: str
    entry: BenchmarkEntry
    links: Sequence[tuple[str, str]]
    configs: Mapping[str, ConfigEntry]

    @property
    def published(self) -> bool:
        """Whether it has a paper; a benchmark of somebody's own images has none."""
        return bool(self.entry.citation)


def benchmarks(manifest: Manifest) -> list[BenchmarkFacts]:
    """The benchmarks of the release by key, each with its configs."""
    return [
        BenchmarkFacts(
            key,
            entry,
            links(entry.citation),
            {name: config for name, config in sorted(manifest.configs.items()) if config.benchmark == key},
        )
        for key, entry in sorted(manifest.benchmarks.items())
    ]


def links(citation: str) -> list[tuple[str, str]]:
    """Links of a BibTeX entry, as text and address: its DOI, its arXiv number and its URL."""
    found = []
    for name, base in (("doi", "https://doi.org/"), ("eprint", "https://arxiv.org/abs/"), ("url", "")):
        value = re.search(_FIELD.format(name), citation)
        if value is not None:
            text = {"doi": "DOI", "eprint": "arXiv", "url": "page"}[name]
            found.append((text, f"{base}{value[1].strip()}"))
    return found


@dataclass(frozen=True)
class Loading:
    """How to load a config: its name in `load_dataset`, its splits, rows and the size of what is downloaded."""

    config: str
    splits: Sequence[str]
    rows: int
    size: str

    @property
    def shown(self) -> str:
        """The split that examples load."""
        return "test" if "test" in self.splits else self.splits[0]


def by_role(config: ConfigEntry) -> list[tuple[str, SplitEntry]]:
    """The splits of a config: in-distribution ones first, then in the order of the roles, and by name."""
    return sorted(config.splits.items(), key=lambda item: (role_order(item[1].roles[0]), item[0]))


def loading(manifest: Manifest) -> list[Loading]:
    """The configs of the release; one without images is loaded by its index. Those for evaluation come first."""
    found = []
    for name, config in sorted(manifest.configs.items()):
        pixels = {split: entry for split, entry in by_role(config) if entry.data}
        entries = pixels or dict(by_role(config))
        files = [file for entry in entries.values() for file in (entry.data if pixels else (entry.index,))]
        rows = sum(entry.rows for entry in entries.values())
        loaded = name if pixels else f"{name}{INDEX_SUFFIX}"
        found.append(Loading(loaded, tuple(entries), rows, byte_text(sum(file.size for file in files))))
    return sorted(found, key=lambda one: (one.splits == ("train",), one.config))


@dataclass(frozen=True)
class OwnColumns:
    """Columns that some configs have beside the common ones, with the names of these configs."""

    columns: Sequence[Column]
    configs: Sequence[str]

    @property
    def nullable(self) -> bool:
        """Whether one of them may lack a value."""
        return any(column.nullable for column in self.columns)


def own_columns(manifest: Manifest) -> list[OwnColumns]:
    """The columns beside the common ones, each once; those of the same configs together."""
    having: dict[Column, list[str]] = {}
    for name, config in sorted(manifest.configs.items()):
        for column in config.own_columns():
            having.setdefault(column, []).append(name)
    found: dict[tuple[str, ...], list[Column]] = {}
    for column, configs in having.items():
        found.setdefault(tuple(configs), []).append(column)
    return [OwnColumns(columns, configs) for configs, columns in found.items()]


def roles(manifest: Manifest) -> list[tuple[int, Role, Sequence[str]]]:
    """The roles in the release: code, name, and the splits (`config/split`) with rows of it."""
    pieces = [(key, piece.role) for key, split in manifest.by_key().items() for piece in split.pieces()]
    return [
        (code, role, tuple(dict.fromkeys(key for key, found in pieces if found == role)))
        for code, role in enumerate(ROLES)
        if any(found == role for _, found in pieces)
    ]


@dataclass(frozen=True)
class Labels:
    """The classes that `label` counts in some configs, with their names if they are wnids."""

    configs: Sequence[str]
    names: Sequence[tuple[str, str]]

    @property
    def are_wnids(self) -> bool:
        """Whether they are ids of WordNet synsets, which say nothing to a reader."""
        return all(_WNID.fullmatch(label) for label, _ in self.names)


def labels(manifest: Manifest) -> list[Labels]:
    """The label names of the release; configs with the same ones are named together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, config in sorted(manifest.configs.items()):
        found.setdefault(config.label_names, []).append(name)
    known = {one.wnid: one.name for one in tables.imagenet1k()}
    return [Labels(configs, [(label, known.get(label, label)) for label in names]) for names, configs in found.items()]


@dataclass(frozen=True)
class SharedSentence:
    """A sentence, and the splits that it is about."""

    sentence: str
    splits: Sequence[str]


def _grouped(splits: Mapping[str, SplitEntry], say: Callable[[SplitEntry], Iterable[str]]) -> list[SharedSentence]:
    found: dict[str, list[str]] = {}
    for name, split in sorted(splits.items()):
        for sentence in say(split):
            found.setdefault(sentence, []).append(name)
    return [SharedSentence(sentence, names) for sentence, names in found.items()]


def reasons(config: ConfigEntry) -> list[SharedSentence]:
    """Why counts differ from the paper's, each sentence once."""
    return _grouped(config.splits, lambda split: [split.why] if split.why else [])


def made(config: ConfigEntry) -> list[SharedSentence]:
    """How images were made, each sentence once: first what stands before a colon, then what follows it."""

    def said(split: SplitEntry, part: int) -> list[str]:
        return [split.made.partition(": ")[2 * part]] if split.made and split.made.partition(": ")[2 * part] else []

    heads, tails = (_grouped(config.splits, partial(said, part=part)) for part in (0, 1))
    return [*heads, *tails]


def made_sentences(manifest: Manifest) -> list[str]:
    """How images were made, over all configs, each sentence once."""
    sentences = (split.made for split in manifest.by_key().values() if split.made)
    return [f"{sentence}." for sentence in dict.fromkeys(sentences)]


def prepared(config: ConfigEntry) -> list[SharedSentence]:
    """The input sizes of models that images are prepared for."""

    def sizes(split: SplitEntry) -> list[str]:
        return [str(split.generator.prepared)] if split.generator is not None and split.generator.prepared else []

    return _grouped(config.splits, sizes)


def recorded(config: ConfigEntry) -> list[SharedSentence]:
    """The settings and weights of images that cannot be made again, each set once."""

    def settings(split: SplitEntry) -> list[str]:
        generator = split.generator
        if generator is None or generator.reproducible != "recorded":
            return []
        values = [f"{name} {value}" for name, value in sorted(generator.parameters.items())]
        weights = [f"SHA-256 of {name} {digest}" for name, digest in sorted(generator.weights.items())]
        return ["; ".join([f"version {generator.version}", *values, *weights])]

    return _grouped(config.splits, settings)


def shortfalls(manifest: Manifest) -> list[SharedSentence]:
    """Images that the sources lacked, each sentence once with the splits (`config/split`) it concerns."""
    return _grouped(manifest.by_key(), lambda split: split.shortfalls)


@dataclass(frozen=True)
class Shift:
    """Rows of one kind of distribution shift: their splits (`config/split`), and how many they are."""

    kind: Role
    splits: tuple[str, ...]
    rows: int
    expected: int
    paper: int


def shifts(manifest: Manifest) -> list[Shift]:
    """Count the rows of each kind of shift over all configs; kinds without a split are left out."""
    pieces = [(key, piece) for key, split in manifest.by_key().items() for piece in split.pieces()]
    found = []
    for kind in SHIFT_ROLES:
        mine = [(key, piece) for key, piece in pieces if piece.role == kind]
        if mine:
            rows, expected, paper = (
                sum(numbers) for numbers in zip(*((p.rows, p.expected, p.paper) for _, p in mine), strict=True)
            )
            found.append(Shift(kind, tuple(dict.fromkeys(key for key, _ in mine)), rows, expected, paper))
    return found


def rules(manifest: Manifest) -> list[tuple[str, str, int]]:
    """The rules that leave images out of a split: name, meaning in words, and the images, summed over all splits."""
    counts: dict[str, int] = {}
    for split in manifest.by_key().values():
        for rule, images in split.excluded_by_rule.items():
            counts[rule] = counts.get(rule, 0) + images
    return [(rule, rule_meaning(rule), images) for rule, images in sorted(counts.items())]


def drawn(manifest: Manifest) -> set[str]:
    """The splits (`config/split`) that were drawn by keyed rank and not adopted from somebody's lists."""
    return {
        key
        for key, split in manifest.by_key().items()
        if not any(piece.adopted for piece in pieces_by_key(key, split).values())
    }


def licences(manifest: Manifest) -> dict[str, SourceEntry]:
    """The sources with a licence that lets images be public, by key."""
    return {key: source for key, source in sorted(manifest.sources.items()) if source.licence.publish == OPEN}
