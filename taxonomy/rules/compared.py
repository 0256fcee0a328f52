"""The known and unknown classes that are compared for the table of overlaps (`taxonomy.rules.overlaps`).

Tested by `tests/taxonomy/test_overlaps.py`.
"""

import functools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from taxonomy import decisions, lists, tables
from taxonomy.rules.keywords import variants
from taxonomy.wordnet.nouns import load_wordnet


@dataclass(frozen=True)
class ComparedClass:
    """A class to compare: its id and name, its synsets as rows, and the words that name it."""

    id: str
    name: str
    rows: tuple[int, ...] = ()
    words: frozenset[str] = frozenset()
    external: bool = False


def _words(names: Iterable[str]) -> frozenset[str]:
    """Return the names in lower case, with and without plural endings; a variant that is no word matches nothing."""
    return frozenset(word for name in names for word in variants(name.lower().replace("_", " ")))


def _synset(wnid: str, *, words: bool = True, external: bool = False) -> ComparedClass:
    """Return a class that is a synset; all its lemmas are names of it, if it is compared by `words`."""
    row = load_wordnet().row(wnid)
    lemmas = load_wordnet().lemmas(row)
    return ComparedClass(wnid, lemmas[0], (row,), _words(lemmas) if words else frozenset(), external)


def _named(class_id: str, name: str, wnids: Iterable[str] = ()) -> ComparedClass:
    """Return a class that has a name, and synsets chosen for it, whose other lemmas are no names of the class."""
    return ComparedClass(class_id, name, tuple(map(load_wordnet().row, wnids)), _words([name.split("/")[0]]))


def _imagenet(*selected: str) -> Iterator[ComparedClass]:
    """Yield ImageNet's classes with the selected decisions in the unified benchmark, or all."""
    for row in decisions.load_decisions("imagenet"):
        if not selected or row.decision in selected:
            yield _synset(row.class_id, external=row.decision == "external")


def _cifar100() -> Iterator[ComparedClass]:
    wnids: dict[str, list[str]] = {}
    for item in tables.cifar100_wnids():
        wnids.setdefault(item.name, []).append(item.wnid)
    return (_named(name, name.replace("_", " "), ids) for name, ids in wnids.items())


def _cifar10() -> Iterator[ComparedClass]:
    return (_named(row["class"], row["class"], [row["wnid"]]) for row in tables.read_csv_rows("cifar10.csv"))


def _tiny_imagenet() -> Iterator[ComparedClass]:
    return map(_synset, tables.tiny_imagenet200())


def _places365(selected: Container[str] | None = None) -> Iterator[ComparedClass]:
    # A synset that is only near the name (geological formation for rock_arch) would have classes below it that the
    # place does not.
    synsets = {
        item.name: [item.wnid] for item in tables.places365_wnids() if item.basis not in ("head_word", "nearest")
    }
    for item in tables.places365():
        if selected is None or item.category in selected:
            yield _named(item.category, item.name, synsets.get(item.category, ()))


def _kept(table: str) -> list[decisions.Decision]:
    return [row for row in decisions.load_decisions(table) if row.decision == "keep"]


def _far(table: str) -> Iterator[ComparedClass]:
    """Yield the classes of a far set, which have names alone, but for the scenes."""
    for row in _kept(table):
        name = re.sub(r"-101$", "", row.class_name).replace("-", " ").replace("_", " ")
        yield ComparedClass(row.class_id, name, (), _words([name]))


def _inaturalist() -> Iterator[ComparedClass]:
    wordnet = load_wordnet()
    for name in sorted(set(tables.inaturalist().values())):
        yield _named(name, name, map(wordnet.wnid, wordnet.senses(name)))


def _imagenet_o() -> Iterator[ComparedClass]:
    """Yield the synsets that an image of ImageNet-O may have: the full ImageNet release without the 1,000 classes."""
    known = {item.wnid for item in tables.imagenet1k()}
    return (_synset(wnid, words=False) for wnid in tables.imagenet_tree() if wnid not in known)


def _listed() -> Iterator[ComparedClass]:
    """Yield the classes of ImageNet-21k that SSB-hard and ImageNet-OOD have images of, as synsets alone."""
    wnids = {wnid for name in lists.OF_IMAGENET21K for wnid in lists.load_list(name).values()}
    return (_synset(wnid, words=False) for wnid in sorted(wnids))


_ListClasses = Callable[[], Iterable[ComparedClass]]

_KNOWN: Mapping[str, _ListClasses] = {
    "imagenet": lambda: _imagenet("in_distribution"),
    "cifar": _cifar100,
    "cifar10": _cifar10,
    "facets": _places365,
    "broad": _imagenet,
}

_UNKNOWN: Mapping[tuple[str, str], _ListClasses] = {
    ("imagenet", "imagenet"): lambda: _imagenet("near_candidate", "external", "excluded"),
    ("imagenet", "food101"): lambda: _far("food101"),
    ("imagenet", "caltech256"): lambda: _far("caltech256"),
    ("imagenet", "places365"): lambda: _places365({row.class_id for row in _kept("places365")}),
    ("cifar", "cifar100"): _cifar100,
    ("cifar", "imagenet"): lambda: (_synset(row.class_id, external=True) for row in _kept("tiny158")),
    ("cifar", "cifar10"): _cifar10,
    ("cifar", "tiny_imagenet"): _tiny_imagenet,
    ("cifar", "places365"): _places365,
    ("cifar10", "cifar100"): _cifar100,
    ("cifar10", "tiny_imagenet"): _tiny_imagenet,
    ("cifar10", "places365"): _places365,
    ("facets", "imagenet"): _imagenet,
    ("facets", "sun397"): lambda: (ComparedClass(item.category, item.name) for item in tables.sun397()),
    ("broad", "inaturalist"): _inaturalist,
    ("broad", "imagenet_o"): _imagenet_o,
    ("broad", "imagenet21k"): _listed,
    ("broad", "places365"): _places365,
    ("broad", "sun397"): lambda: (_named(item.category, item.name) for item in tables.sun397()),
}

COMPARED = tuple(_UNKNOWN)
"""Benchmarks and sources whose unknown classes are compared; sources without classes are in the table by hand."""


@functools.cache
def known(benchmark: str) -> Mapping[str, ComparedClass]:
    """Return the known classes of a benchmark by id."""
    return {item.id: item for item in _KNOWN[benchmark]()}


@functools.cache
def unknown(benchmark: str, source: str) -> Mapping[str, ComparedClass]:
    """Return the unknown classes of a source in a benchmark, one of `COMPARED`, by id."""
    return {item.id: item for item in _UNKNOWN[benchmark, source]()}
