"""Collects facts of a release for its card and Croissant metadata, and responsible-AI statements.

All is computed from the manifest. The statements go by the properties of the Croissant RAI vocabulary 1.0 (MLCommons,
Croissant RAI Specification 1.0, http://mlcommons.org/croissant/RAI/1.0). Only what the release and its sources show is
stated: nothing was examined for people or for bias, and these statements say so.

Tested by `tests/hf_scripts/test_card.py` and `tests/builders/card/test_metadata.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from builders.card.words import RULE_MEANINGS
from builders.release.entries import BenchmarkEntry, ConfigEntry, Manifest
from builders.release.layout import INDEX_SUFFIX
from builders.release.schema import ID_OVERLAP, ROLES, SHIFT_ROLES, Column, Role
from builders.release.split_entries import SplitEntry, pieces_by_key
from taxonomy import tables
from unknown_detection.words import byte_text, quantity

_FIELD = r"(?m)^\s*{}\s*=\s*[{{\"]+([^}}\"]+)"
_WNID = re.compile(r"n\d{8}")

MOST_CLASSES = 400
"""Most classes that the card lists (ours): Places365's are, the 1,000 of ImageNet would be a fifth of a card."""


class BenchmarkFacts(NamedTuple):
    """A benchmark in the release: its key, its entry, links to its paper, and the configs that belong to it.

    `published` says whether it has a paper; a benchmark of somebody's own images has none.
    """

    key: str
    entry: BenchmarkEntry
    links: Sequence[tuple[str, str]]
    configs: Mapping[str, ConfigEntry]
    published: bool


def benchmarks(manifest: Manifest) -> list[BenchmarkFacts]:
    """Return the benchmarks of the release by key, each with its configs."""
    return [
        BenchmarkFacts(
            key,
            entry,
            links(entry.citation),
            {name: config for name, config in sorted(manifest.configs.items()) if config.benchmark == key},
            bool(entry.citation),
        )
        for key, entry in sorted(manifest.benchmarks.items())
    ]


def links(citation: str) -> list[tuple[str, str]]:
    """Return the links of a BibTeX entry, as text and address: its DOI, its arXiv number and its URL."""
    addresses = []
    for name, base in (("doi", "https://doi.org/"), ("eprint", "https://arxiv.org/abs/"), ("url", "")):
        match = re.search(_FIELD.format(name), citation)
        if match is not None:
            text = {"doi": "DOI", "eprint": "arXiv", "url": "page"}[name]
            addresses.append((text, f"{base}{match[1].strip()}"))
    return addresses


class Loading(NamedTuple):
    """How to load a config: its name in `load_dataset`, its splits, rows and the size of what is downloaded.

    `shown` is the split that examples load.
    """

    config: str
    splits: Sequence[str]
    rows: int
    size: str
    shown: str


def by_role(config: ConfigEntry) -> list[tuple[str, SplitEntry]]:
    """Sort the splits of a config: in-distribution ones first, then in the order of the roles, and by name."""
    return sorted(config.splits.items(), key=lambda item: (ROLES.index(item[1].roles[0]), item[0]))


def configs_to_load(manifest: Manifest) -> list[Loading]:
    """Return how to load each config, those for evaluation first; one without images is loaded by its index."""
    loadings = []
    for name, config in sorted(manifest.configs.items()):
        pixels = {split: entry for split, entry in by_role(config) if entry.data}
        entries = pixels or dict(by_role(config))
        files = [file for entry in entries.values() for file in (entry.data if pixels else (entry.index,))]
        rows = sum(entry.rows for entry in entries.values())
        loaded = name if pixels else f"{name}{INDEX_SUFFIX}"
        shown = "test" if "test" in entries else next(iter(entries))
        loadings.append(Loading(loaded, tuple(entries), rows, byte_text(sum(file.size for file in files)), shown))
    return sorted(loadings, key=lambda loading: (loading.splits == ("train",), loading.config))


def own_columns(manifest: Manifest) -> dict[tuple[str, ...], list[Column]]:
    """Return the columns beside the common ones, by the names of the configs that have them."""
    configs_of: dict[Column, list[str]] = {}
    for name, config in sorted(manifest.configs.items()):
        for column in config.columns:
            configs_of.setdefault(column, []).append(name)
    columns_of: dict[tuple[str, ...], list[Column]] = {}
    for column, configs in configs_of.items():
        columns_of.setdefault(tuple(configs), []).append(column)
    return columns_of


def roles(manifest: Manifest) -> list[tuple[int, Role, Sequence[str]]]:
    """List the roles in the release: code, name, and the splits (`config/split`) with rows of it."""
    pieces = [(key, piece.role) for key, split in manifest.by_key().items() for piece in split.pieces()]
    return [
        (code, role, tuple(dict.fromkeys(key for key, other_role in pieces if other_role == role)))
        for code, role in enumerate(ROLES)
        if any(other_role == role for _, other_role in pieces)
    ]


class Labels(NamedTuple):
    """The classes that `label` counts in some configs, with their names if they are ids of WordNet synsets."""

    configs: Sequence[str]
    names: Sequence[tuple[str, str]]
    are_wnids: bool


def label_sets(manifest: Manifest) -> list[Labels]:
    """Return the label names of the release; configs with the same ones share an entry."""
    configs_of: dict[tuple[str, ...], list[str]] = {}
    for name, config in sorted(manifest.configs.items()):
        configs_of.setdefault(config.label_names, []).append(name)
    synsets = {synset.wnid: synset.name for synset in tables.imagenet1k()}
    return [
        Labels(configs, [(label, synsets.get(label, label)) for label in names], all(map(_WNID.fullmatch, names)))
        for names, configs in configs_of.items()
    ]


Sentences = dict[str, list[str]]
"""Sentences, each with the splits that it is about."""


class Remarks(NamedTuple):
    """What the manifest says of the splits of a config, each sentence once.

    `reasons` say why counts differ from the paper's. `made` says how images were made: first what stands before a
    colon, then what follows it. `prepared` has the input sizes of models that images are prepared for, and `recorded`
    the settings and weights of images that cannot be made again.
    """

    reasons: Sentences
    made: Sequence[tuple[str, list[str]]]
    prepared: dict[int, list[str]]
    recorded: Sentences


def remarks(config: ConfigEntry) -> Remarks:
    """Collect what the manifest says of the splits of a config."""
    reasons, heads, tails, recorded = (defaultdict[str, list[str]](list) for _ in range(4))
    prepared = defaultdict[int, list[str]](list)
    for name, split in sorted(config.splits.items()):
        head, _, tail = (split.made or "").partition(": ")
        for sentence, group in ((split.why, reasons), (head, heads), (tail, tails)):
            if sentence:
                group[sentence].append(name)
        generator = split.generator
        if generator is not None and generator.prepared:
            prepared[generator.prepared].append(name)
        if generator is not None and generator.reproducible == "recorded":
            values = [f"{setting} {value}" for setting, value in sorted(generator.parameters.items())]
            weights = [f"SHA-256 of {file} {digest}" for file, digest in sorted(generator.weights.items())]
            recorded["; ".join([f"version {generator.version}", *values, *weights])].append(name)
    return Remarks(reasons, [*heads.items(), *tails.items()], prepared, recorded)


def missing_images(manifest: Manifest) -> Sentences:
    """Return what the sources lacked, in sentences with the splits (`config/split`) that they concern."""
    sentences: Sentences = {}
    for key, split in sorted(manifest.by_key().items()):
        for sentence in split.shortfalls:
            sentences.setdefault(sentence, []).append(key)
    return sentences


class Shift(NamedTuple):
    """Rows of one kind of distribution shift: their splits (`config/split`), and how many they are."""

    kind: Role
    splits: tuple[str, ...]
    rows: int
    expected: int
    paper: int


def shifts(manifest: Manifest) -> list[Shift]:
    """Count the rows of each kind of shift over all configs; kinds without a split are left out."""
    pieces = [(key, piece) for key, split in manifest.by_key().items() for piece in split.pieces()]
    counted = []
    for kind in SHIFT_ROLES:
        of_kind = [piece for _, piece in pieces if piece.role == kind]
        if of_kind:
            splits = tuple(dict.fromkeys(key for key, piece in pieces if piece.role == kind))
            rows, expected, paper = (
                sum(getattr(piece, n) for piece in of_kind) for n in ("rows", "expected", "paper")
            )
            counted.append(Shift(kind, splits, rows, expected, paper))
    return counted


def rules(manifest: Manifest) -> list[tuple[str, str, int]]:
    """Count the images that each rule leaves out of any split; returns its name, its meaning and the count."""
    counts: dict[str, int] = {}
    for split in manifest.by_key().values():
        for rule, images in split.excluded_by_rule.items():
            counts[rule] = counts.get(rule, 0) + images
    return [(rule, RULE_MEANINGS.get(rule, ""), images) for rule, images in sorted(counts.items())]


def drawn(manifest: Manifest) -> set[str]:
    """Return the splits (`config/split`) that were drawn by keyed rank and not adopted from somebody's lists."""
    return {
        key
        for key, split in manifest.by_key().items()
        if not any(piece.adopted for piece in pieces_by_key(key, split).values())
    }


COLLECTION_TYPE = "Secondary Data analysis"
"""The value that the vocabulary recommends for data that others collected (property `dataCollectionType`)."""


_EVALUATION = "Evaluation of out-of-distribution detectors and of the robustness of image classifiers, in research."
_EXTERNAL = "Images of the role external are for tuning detectors and for training on unknown images."
_NOT_SAFE = "A score on these images does not show that a model is safe to use elsewhere."
_AS_STORED = "Images are stored with the bytes of their source files, unless the column stored says otherwise."
_CLASSES = "Classes are those of the source datasets; no image was annotated for this release."
_OVERLAPS = "Which unknown classes overlap a known one (id_overlap) was decided for classes, not for images."
_PERSONAL = (
    "The release was not examined for personal or sensitive information, and no column holds any. Photographs of the "
    "sources may show people, house numbers or other things by which people can be recognised."
)
_MAINTENANCE = (
    "Versions are tags and never change: a major version changes rows, a minor one adds splits or columns, a patch "
    "changes metadata. CHANGELOG.md lists all of them, and withdrawn rows are named in the card."
)


@dataclass(frozen=True)
class Statement:
    """A property of the vocabulary (without prefix), its title in the card, and its sentences."""

    name: str
    title: str
    texts: tuple[str, ...]


def statements(manifest: Manifest) -> list[Statement]:
    """Return the statements about a release, without properties that its data do not support."""
    splits = manifest.by_key().values()
    titles = ", ".join(source.title for _, source in sorted(manifest.sources.items()))
    collection = (
        "No image was collected for this release: all come from, or are made from, datasets that others published "
        f"({titles}). Which images are chosen follows from the rules of the benchmarks and from a keyed hash."
    )
    external = any(split.roles == ("external",) for split in splits)
    uses = (_EVALUATION, *[_EXTERNAL] * external, _NOT_SAFE)
    preparation = dict.fromkeys(f"{split.made}." for split in splits if split.made)
    overlaps = any(ID_OVERLAP in config.columns for config in manifest.configs.values())
    listed_statements = [
        Statement("dataUseCases", "Intended uses", uses),
        Statement("dataCollection", "Collection", (collection,)),
        Statement("dataCollectionMissingData", "Missing data", (" ".join(_missing(manifest)),)),
        Statement("dataPreprocessingProtocol", "Preprocessing", (_AS_STORED, *preparation)),
        Statement("dataAnnotationProtocol", "Annotation", (_CLASSES, *[_OVERLAPS] * overlaps)),
        Statement("dataBiases", "Biases", _biases(manifest)),
        Statement("dataLimitations", "Limitations", _limitations(manifest)),
        Statement("personalSensitiveInformation", "Personal and sensitive information", (_PERSONAL,)),
    ]
    if manifest.version is not None:
        listed_statements.append(Statement("dataReleaseMaintenancePlan", "Maintenance", (_MAINTENANCE,)))
    return listed_statements


def _missing(manifest: Manifest) -> tuple[str, ...]:
    excluded = sum(split.excluded for split in manifest.by_key().values())
    texts = [
        f"Left out by rules, with a reason each in excluded/: {quantity(excluded, 'image')}, counted for every split."
    ]
    rows, expected = (sum(getattr(s, n) for s in manifest.by_key().values()) for n in ("rows", "expected"))
    if rows < expected:
        texts.append(f"The release has {quantity(rows, 'row')}, of {expected:,} that complete sources give.")
    return tuple(texts)


def _biases(manifest: Manifest) -> tuple[str, ...]:
    texts = ["The biases of the source datasets carry over; they were not measured."]
    if manifest.duplicates is not None:
        texts.append(
            f"Some pictures occur twice: the config duplicates lists {quantity(manifest.duplicates.rows, 'pair')}."
        )
    overlaps = sum(split.overlaps or 0 for split in manifest.by_key().values())
    if overlaps:
        texts.append(f"{overlaps:,} unknown rows have a class that overlaps a known one (id_overlap).")
    return tuple(texts)


def _limitations(manifest: Manifest) -> tuple[str, ...]:
    texts = [
        f"{benchmark.title} is built from demo sources: made-up images, for trying the tools and never for a result."
        for _, benchmark in sorted(manifest.benchmarks.items())
        if benchmark.demo
    ]
    texts += [
        f"{benchmark.title} is limited to {quantity(benchmark.limit_per_class, 'image')} of each class."
        for _, benchmark in sorted(manifest.benchmarks.items())
        if benchmark.limit_per_class is not None
    ]
    if any(split.generator and split.generator.reproducible == "recorded" for split in manifest.by_key().values()):
        texts.append("Some images depend on the device and the libraries that made them and cannot be made again.")
    texts.append("Images may show objects of other classes than their own, also of known ones.")
    return tuple(texts)
