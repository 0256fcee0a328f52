"""The known and unknown classes that are compared for the table of overlaps (`taxonomy.rules.overlaps`).

Tested by `tests/taxonomy/test_overlaps.py`.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
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


def _synset(wnid: str, name: str, *, external: bool = False) -> ComparedClass:
    """Return a class that is a synset; all its lemmas are names of it."""
    row = load_wordnet().row(wnid)
    return ComparedClass(wnid, name, (row,), _words(load_wordnet().lemmas(row)), external)


def _named(class_id: str, name: str, wnids: list[str]) -> ComparedClass:
    """Return a class that has a name, and synsets chosen for it, whose other lemmas are no names of the class."""
    return ComparedClass(class_id, name, tuple(map(load_wordnet().row, wnids)), _words([name.split("/")[0]]))


def _by_id(classes: Iterable[ComparedClass]) -> dict[str, ComparedClass]:
    return {item.id: item for item in classes}


def _imagenet(*selected: str) -> dict[str, ComparedClass]:
    """Return ImageNet's classes with the selected decisions in the unified benchmark, or all."""
    decision_of = {row.class_id: row.decision for row in decisions.load_decisions("imagenet")}
    return _by_id(
        _synset(item.wnid, item.name, external=decision_of[item.wnid] == "external")
        for item in tables.imagenet1k()
        if not selected or decision_of[item.wnid] in selected
    )


@functools.cache
def _imagenet_known() -> dict[str, ComparedClass]:
    return _imagenet("in_distribution")


@functools.cache
def _imagenet_unknown() -> dict[str, ComparedClass]:
    return _imagenet("near_candidate", "external", "excluded")


@functools.cache
def _imagenet_all() -> dict[str, ComparedClass]:
    return _imagenet()


@functools.cache
def _cifar100() -> dict[str, ComparedClass]:
    wnids: dict[str, list[str]] = {}
    for item in tables.cifar100_wnids():
        wnids.setdefault(item.name, []).append(item.wnid)
    return _by_id(_named(name, name.replace("_", " "), ids) for name, ids in wnids.items())


@functools.cache
def _tiny158() -> dict[str, ComparedClass]:
    rows = decisions.load_decisions("tiny158")
    return _by_id(_synset(row.class_id, row.class_name, external=True) for row in rows if row.decision == "keep")


@functools.cache
def _far(table: str) -> dict[str, ComparedClass]:
    """Return the classes of a far set, which have names alone, but for the scenes."""
    rows = [row for row in decisions.load_decisions(table) if row.decision == "keep"]
    if table == "places365":
        places = _places365()
        return _by_id(places[row.class_id] for row in rows)
    names = {row.class_id: re.sub(r"-101$", "", row.class_name).replace("-", " ").replace("_", " ") for row in rows}
    return _by_id(ComparedClass(row.class_id, names[row.class_id], (), _words([names[row.class_id]])) for row in rows)


@functools.cache
def _places365() -> dict[str, ComparedClass]:
    # A synset that is only near the name (geological formation for rock_arch) would have classes below it that the
    # place does not.
    wnid_of = {item.name: item.wnid for item in tables.places365_wnids() if item.basis not in ("head_word", "nearest")}
    return _by_id(
        _named(item.category, item.name, [wnid_of[item.category]] if item.category in wnid_of else [])
        for item in tables.places365()
    )


@functools.cache
def _sun397() -> dict[str, ComparedClass]:
    return _by_id(ComparedClass(item.category, item.name) for item in tables.sun397())


@functools.cache
def _inaturalist() -> dict[str, ComparedClass]:
    wordnet = load_wordnet()
    species = sorted(set(tables.inaturalist().values()))
    return _by_id(_named(name, name, [wordnet.wnid(row) for row in wordnet.senses(name)]) for name in species)


@functools.cache
def _imagenet_o() -> dict[str, ComparedClass]:
    """Return the synsets that an image of ImageNet-O may have: the full ImageNet release without the 1,000 classes."""
    known = {item.wnid for item in tables.imagenet1k()}
    return _synsets(wnid for wnid in tables.imagenet_tree() if wnid not in known)


@functools.cache
def _listed() -> dict[str, ComparedClass]:
    """Return the classes of ImageNet-21k that SSB-hard and ImageNet-OOD have images of, as synsets alone."""
    return _synsets(sorted({wnid for name in lists.OF_IMAGENET21K for wnid in lists.load_list(name).values()}))


def _synsets(wnids: Iterable[str]) -> dict[str, ComparedClass]:
    wordnet = load_wordnet()
    return _by_id(
        ComparedClass(wnid, wordnet.lemmas(row)[0], (row,)) for wnid in wnids for row in (wordnet.row(wnid),)
    )


@functools.cache
def _sun397_by_name() -> dict[str, ComparedClass]:
    return _by_id(_named(item.category, item.name, []) for item in tables.sun397())


KNOWN: Mapping[str, Callable[[], Mapping[str, ComparedClass]]] = {
    "imagenet": _imagenet_known,
    "cifar": _cifar100,
    "facets": _places365,
    "broad": _imagenet_all,
}
"""The known classes by benchmark."""

UNKNOWN: Mapping[str, Mapping[str, Callable[[], Mapping[str, ComparedClass]]]] = {
    "imagenet": {
        "imagenet": _imagenet_unknown,
        **{name: functools.partial(_far, name) for name in ("food101", "caltech256", "places365")},
    },
    "cifar": {"cifar100": _cifar100, "imagenet": _tiny158},
    "facets": {"imagenet": _imagenet_all, "sun397": _sun397},
    "broad": {
        "inaturalist": _inaturalist,
        "imagenet_o": _imagenet_o,
        "imagenet21k": _listed,
        "places365": _places365,
        "sun397": _sun397_by_name,
    },
}
"""The unknown classes by benchmark and source. Sources without classes of their own are in the table by hand."""
