"""Collects the facts and responsible-AI statements that a release's card and Croissant metadata show.

All is computed from the manifest. The statements go by the properties of the Croissant RAI vocabulary 1.0 (MLCommons,
Croissant RAI Specification 1.0, http://mlcommons.org/croissant/RAI/1.0). Only what the release and its sources show is
stated: nothing was examined for people or for bias, and these statements say so.

Tested by `tests/hf_scripts/test_card.py` and `tests/builders/card/test_metadata.py`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from builders.card.words import RULE_MEANINGS
from builders.release.duplicates import unsearched
from builders.release.entries import ConfigEntry, Manifest, SourceEntry, SplitEntry
from builders.release.layout import INDEX_SUFFIX
from builders.release.schema import ID_OVERLAP, ROLES, Column, Role
from taxonomy import tables
from unknown_detection.words import byte_text, quantity

_FIELD = r"(?m)^\s*{}\s*=\s*[{{\"]+([^}}\"]+)"

MOST_CLASSES = 400
"""Most classes that the card lists (ours): Places365's are, the 1,000 of ImageNet would be a fifth of a card."""


def links(citation: str) -> list[tuple[str, str]]:
    """Return the links of a BibTeX entry, as text and address: its DOI, its arXiv number and its URL."""
    fields = (("doi", "DOI", "https://doi.org/"), ("eprint", "arXiv", "https://arxiv.org/abs/"), ("url", "page", ""))
    found = [(text, base, re.search(_FIELD.format(name), citation)) for name, text, base in fields]
    return [(text, f"{base}{match[1].strip()}") for text, base, match in found if match is not None]


class Loading(NamedTuple):
    """How to load a config: its name in `load_dataset`, its splits and rows, and the size of the download."""

    config: str
    splits: Sequence[str]
    rows: int
    size: str
    shown: str


def by_role(config: ConfigEntry) -> list[tuple[str, SplitEntry]]:
    """Sort the splits of a config: in-distribution ones first, then in the order of the roles, and by name."""
    return sorted(config.splits.items(), key=lambda item: (ROLES.index(item[1].roles[0]), item[0]))


def configs_to_load(manifest: Manifest) -> list[Loading]:
    """Return how to load each config, those for evaluation first; a config without images is loaded by its index."""
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
    """Return the columns that only some configs have, by the names of these configs."""
    configs = sorted(manifest.configs.items())
    columns_of: dict[tuple[str, ...], list[Column]] = {}
    for column in dict.fromkeys(column for _, config in configs for column in config.columns):
        columns_of.setdefault(tuple(name for name, config in configs if column in config.columns), []).append(column)
    return columns_of


def roles(manifest: Manifest) -> Iterator[tuple[int, Role, list[str], list[int]]]:
    """Yield each role in the release: its code, name, splits (`config/split`), and rows (built, expected, paper's)."""
    splits = manifest.by_key()
    for code, role in enumerate(ROLES):
        parts = [part for split in splits.values() for part in split.parts if part.role == role]
        if parts:
            counts = [sum(getattr(part, name) for part in parts) for name in ("rows", "expected", "paper")]
            yield code, role, [key for key, split in splits.items() if role in split.roles], counts


class Labels(NamedTuple):
    """The classes that `label` numbers in some configs, with the names of classes that are WordNet synsets."""

    configs: Sequence[str]
    names: Sequence[tuple[str, str]]
    are_wnids: bool


def label_sets(manifest: Manifest) -> list[Labels]:
    """Return the label names of the release; configs with equal names share an entry."""
    configs_of: dict[tuple[str, ...], list[str]] = {}
    for name, config in sorted(manifest.configs.items()):
        configs_of.setdefault(config.label_names, []).append(name)
    synsets = {synset.wnid: synset.name for synset in tables.imagenet1k()}
    return [
        Labels(configs, [(label, synsets.get(label, label)) for label in names], all(map(tables.is_wnid, names)))
        for names, configs in configs_of.items()
    ]


Sentences = dict[str, list[str]]
"""Sentences, each with the splits that it is about."""


class Remarks(NamedTuple):
    """What the manifest remarks on the splits of a config, each sentence once.

    `reasons`: why counts differ from the paper's. `made`: how images were made, first what stands before a colon.
    `prepared`: input sizes of models. `recorded`: settings and weights of images that cannot be made again.
    """

    reasons: Sentences
    made: Sentences
    prepared: dict[int, list[str]]
    recorded: Sentences


def remarks(config: ConfigEntry) -> Remarks:
    """Collect what the manifest remarks on the splits of a config."""
    reasons, heads, tails, recorded = (defaultdict[str, list[str]](list) for _ in range(4))
    prepared = defaultdict[int, list[str]](list)
    for name, split in sorted(config.splits.items()):
        head, _, tail = (split.made or "").partition(": ")
        why = dict.fromkeys(part.why for part in split.parts)
        for sentence, group in (*((text, reasons) for text in why), (head, heads), (tail, tails)):
            if sentence:
                group[sentence].append(name)
        generator = split.generator
        if generator is not None and generator.prepared:
            prepared[generator.prepared].append(name)
        if generator is not None and generator.reproducible == "recorded":
            values = [f"{setting} {value}" for setting, value in sorted(generator.parameters.items())]
            weights = [f"SHA-256 of {file} {digest}" for file, digest in sorted(generator.weights.items())]
            recorded["; ".join([f"version {generator.version}", *values, *weights])].append(name)
    return Remarks(reasons, heads | tails, prepared, recorded)


def missing_images(manifest: Manifest) -> Sentences:
    """Return sentences on what the sources lacked, each with the splits (`config/split`) that it concerns."""
    sentences: Sentences = defaultdict(list)
    for key, split in sorted(manifest.by_key().items()):
        for sentence in split.shortfalls:
            sentences[sentence].append(key)
    return sentences


def terms_to_accept(manifest: Manifest) -> list[SourceEntry]:
    """Return the sources of images in the release that may be had on request alone, sorted by key."""
    keys = {key for split in manifest.by_key().values() if split.data for key in split.sources}
    return [manifest.sources[key] for key in sorted(keys) if manifest.sources[key].licence.publish == "gated"]


def rules(manifest: Manifest) -> list[tuple[str, str, int]]:
    """Return each rule that leaves images out of some split: its name, its meaning and its number of images."""
    counts: Counter[str] = Counter()
    for split in manifest.by_key().values():
        counts.update(split.excluded_by_rule)
    return [(rule, RULE_MEANINGS.get(rule, ""), images) for rule, images in sorted(counts.items())]


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


class Statement(NamedTuple):
    """A responsible-AI property (without prefix), its title in the card, and its sentences."""

    name: str
    title: str
    texts: tuple[str, ...]


def statements(manifest: Manifest) -> list[Statement]:
    """Return the responsible-AI statements about a release, without properties that its data do not support."""
    splits = manifest.by_key().values()
    titles = ", ".join(source.title for _, source in sorted(manifest.sources.items()))
    collection = (
        "No image was collected for this release: all come from, or are made from, datasets that others published "
        f"({titles}). Which images are chosen follows from the rules of the benchmarks and from a keyed hash."
    )
    external = any(split.roles == ("external",) for split in splits)
    preparation = dict.fromkeys(f"{split.made}." for split in splits if split.made)
    overlaps = any(ID_OVERLAP in config.columns for config in manifest.configs.values())
    listed = [
        Statement("dataUseCases", "Intended uses", (_EVALUATION, *[_EXTERNAL] * external, _NOT_SAFE)),
        Statement("dataCollection", "Collection", (collection,)),
        Statement("dataCollectionMissingData", "Missing data", (_missing(manifest),)),
        Statement("dataPreprocessingProtocol", "Preprocessing", (_AS_STORED, *preparation)),
        Statement("dataAnnotationProtocol", "Annotation", (_CLASSES, *[_OVERLAPS] * overlaps)),
        Statement("dataBiases", "Biases", tuple(_biases(manifest))),
        Statement("dataLimitations", "Limitations", tuple(_limitations(manifest))),
        Statement("personalSensitiveInformation", "Personal and sensitive information", (_PERSONAL,)),
        Statement("dataReleaseMaintenancePlan", "Maintenance", (_MAINTENANCE,)),
    ]
    return listed if manifest.version is not None else listed[:-1]


def _missing(manifest: Manifest) -> str:
    splits = manifest.by_key().values()
    rows, expected = sum(split.rows for split in splits), sum(split.expected for split in splits)
    left_out = quantity(sum(split.excluded_by_rule.total() for split in splits), "image")
    text = f"Left out by rules, with a reason each in excluded/: {left_out}, counted for every split."
    if rows < expected:
        text += f" The release has {quantity(rows, 'row')}, of {expected:,} that complete sources give."
    return text


def _biases(manifest: Manifest) -> Iterator[str]:
    yield "The biases of the source datasets carry over; they were not measured."
    if manifest.duplicates is not None:
        pairs = quantity(manifest.duplicates.rows, "pair")
        yield f"Some pictures occur twice: the config duplicates lists {pairs}."
        if manifest.duplicates.doubtful:
            keys = ", ".join(manifest.duplicates.doubtful)
            yield f"Near pairs of {keys} are too many to be duplicates: other pictures were taken for one."
        if told := unsearched(manifest):
            yield f"{told[0].upper()}{told[1:]}."
    if overlaps := sum(split.overlaps or 0 for split in manifest.by_key().values()):
        yield f"{overlaps:,} unknown rows have a class that overlaps a known one (id_overlap)."


def _limitations(manifest: Manifest) -> Iterator[str]:
    entries = [entry for _, entry in sorted(manifest.benchmarks.items())]
    for entry in entries:
        if entry.demo:
            made_up = "made-up images, for trying the tools and never for a result"
            yield f"{entry.title} is built from demo sources: {made_up}."
    for entry in entries:
        if entry.limit_per_class is not None:
            yield f"{entry.title} is limited to {quantity(entry.limit_per_class, 'image')} of each class."
    if any(split.generator and split.generator.reproducible == "recorded" for split in manifest.by_key().values()):
        yield "Some images depend on the device and the libraries that made them and cannot be made again."
    yield "Images may show objects of other classes than their own, also of known ones."
