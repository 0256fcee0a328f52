"""The frozen table `overlaps.csv`, which lists the unknown classes that share a meaning with known ones.

The papers call a class unknown by a rule about its name or its place in WordNet. Some of these classes are, hold or
show a known class all the same. The table has entries for every unknown class of every config: its overlaps with
their evidence, or the result that it has none. `taxonomy.rules.overlaps` computes it; a release has the closest one in
the column `id_overlap`.

No image was viewed. An entry says what pictures of such a class show in general, and a row that it marks need not.
"""

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from taxonomy.tables import read_rows

FILE = "overlaps.csv"

CLOSENESS: Mapping[str, int] = {
    "same": 0,
    **dict.fromkeys(("descendant", "ancestor", "kind-of"), 1),
    "part-of": 2,
    "shared word": 3,
    "scene holds object": 4,
}
"""Kinds of overlap, each with its place, the closest first.

- same: two names of one thing.
- descendant: WordNet has the unknown class below the known one, as blue jay below jay.
- ancestor: WordNet has the unknown class above the known one, as goat above ibex.
- kind-of: one is a kind of the other, as a person says. A class of the external sets, which are to have nothing in
  common with the known ones, is also marked where both are kinds of one everyday category
  (`taxonomy.rules.overlaps.CATEGORIES`).
- part-of: one is a part of the other, or its ingredient.
- shared word: one name, or the head of one, for two things.
- scene holds object: a picture of one usually shows the other beside it, on it or around it.
"""

NONE = "none"
"""The kind of an entry for a class that was examined and has no overlap."""

EVERY = "*"
"""The class id of the entry for all classes of a source that have none of their own."""

LABEL_SPACES: Mapping[str, str] = {
    "imagenet": "the 200 in-distribution classes of ImageNet",
    "cifar": "CIFAR-100's 100 classes, of which a config knows those that are drawn, or all",
    "cifar10": "CIFAR-10's 10 classes",
    "facets": "Places365's 365 classes",
    "broad": "ImageNet-1k's 1,000 classes",
    "ssb-cub": "the 100 known classes of CUB-200-2011",
    "ssb-aircraft": "the 50 known variants of FGVC-Aircraft",
}
"""The known classes that each benchmark's unknown ones are compared with, by the column `benchmark`."""

BY_NAME = "names"
"""In place of a benchmark: the classes are a person's own, whose overlaps `taxonomy.rules.own_classes` computes."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """An unknown class and a known one that share a meaning, or an unknown class that shares none.

    `benchmark` is a key of `LABEL_SPACES`. The unknown class is named as its source names it, or `EVERY`; the known
    one as the benchmark's configs do in `label`, "" if there is none. `basis` is "WordNet", "FACETS grade" or "by
    hand", and `evidence` the path in WordNet, the grade's reason, or that of the hand.
    """

    benchmark: str
    source: str
    class_id: str
    class_name: str
    known: str
    known_name: str
    kind: str
    basis: str
    evidence: str


@functools.cache
def load_overlaps() -> tuple[Overlap, ...]:
    """Return the table, sorted by benchmark, source, unknown class and closeness."""
    return read_rows(Overlap, FILE)


@functools.cache
def _by_source() -> Mapping[tuple[str, str], tuple[Overlap, ...]]:
    rows_of: dict[tuple[str, str], list[Overlap]] = {}
    for row in load_overlaps():
        rows_of.setdefault((row.benchmark, row.source), []).append(row)
    return {key: tuple(entries) for key, entries in rows_of.items()}


def source_overlaps(benchmark: str, source: str) -> tuple[Overlap, ...]:
    """Return the entries of a source's classes in one benchmark, the closest of a class first; () if none."""
    return _by_source().get((benchmark, source), ())


def closest(benchmark: str, source: str, known: Collection[str]) -> dict[str, Overlap]:
    """Return the closest overlap of each class of a source that has one, by class id.

    `known`: the known classes of the config; entries with others do not count.
    """
    known_classes = frozenset(known)
    overlap_of: dict[str, Overlap] = {}
    for row in source_overlaps(benchmark, source):
        if row.kind != NONE and row.known in known_classes:
            overlap_of.setdefault(row.class_id, row)
    return overlap_of


def describe(benchmark: str, source: str, class_id: str) -> list[str]:
    """Return a line for each entry of a class."""
    lines = []
    for row in source_overlaps(benchmark, source):
        if row.class_id == class_id:
            known = row.known if row.known_name in row.known else f"{row.known_name} ({row.known})"
            lines.append(f"{row.kind}{f', {known}' if known else ''} ({row.basis}): {row.evidence}")
    return lines
