"""Which unknown classes of somebody's own folders overlap known ones, by WordNet 3.0 and by name.

A class is a synset if its name is a wnid, and otherwise the first sense of its name as a noun, the most frequent one.
Two classes overlap where their synsets are one, where one is above the other, or where they have one name.

Tested by `tests/taxonomy/rules/test_own_classes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from taxonomy.errors import TaxonomyError
from taxonomy.overlaps import CLOSENESS
from taxonomy.rules.compared import ComparedClass
from taxonomy.rules.keywords import variants
from taxonomy.rules.overlaps import related
from taxonomy.wordnet.nouns import load_wordnet

_WNID = re.compile(r"n[0-9]{8}")
_NAMED = 300
"""Classes that a sentence names at most (ours): manifests and cards hold the sentences."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


@dataclass(frozen=True)
class ClassComparison:
    """Unknown classes compared with known ones.

    Attributes:
        overlaps: the known class that an unknown one overlaps most closely, by the unknown one's id.
        remarks: which unknown classes the comparison says little of, in sentences.
    """

    overlaps: Mapping[str, str]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class _Placed:
    """A class with the synset that it is taken for, if any; and all senses of its name, which are none for a wnid."""

    item: ComparedClass
    senses: tuple[int, ...] = ()


def compare_classes(unknown: Mapping[str, str], known: Mapping[str, str]) -> ClassComparison:
    """Compare unknown classes with known ones.

    Args:
        unknown: names of the unknown classes by id.
        known: names of the known classes by id.
    """
    # Turned around, because `related` takes the last of several with one synset.
    ours, theirs = _placed(unknown), dict(reversed(_placed(known).items()))
    order = {class_id: place for place, class_id in enumerate(known)}
    found: dict[str, tuple[int, int, str]] = {}
    for item, other, kind, _ in related(_items(ours), _items(theirs)):
        this = (CLOSENESS[kind], order[other.id], other.id)
        found[item.id] = min(this, found.get(item.id, this))
    overlaps = {class_id: found[class_id][2] for class_id in unknown if class_id in found}
    others: dict[str, str] = {}
    for item, other, kind, _ in related(_items(ours, every=True), _items(theirs, every=True)):
        if item.id not in overlaps and CLOSENESS[kind] <= CLOSENESS["kind-of"]:
            others.setdefault(item.id, f"{item.id} and {_shown(other)}")
    remarks = list(_remarks(ours))
    if others:
        remarks.append(
            f"In other senses of their names these would overlap, and are not counted: {_listed([*others.values()])}. "
            "Name a folder by its wnid to say which sense is meant."
        )
    return ClassComparison(overlaps, tuple(remarks))


def naming_remarks(classes: Mapping[str, str]) -> tuple[str, ...]:
    """Say which classes are no nouns of WordNet, and which have several senses, in sentences; names by id."""
    return tuple(_remarks(_placed(classes)))


def _remarks(placed: Mapping[str, _Placed]) -> Iterable[str]:
    absent = [class_id for class_id, one in placed.items() if not one.item.rows]
    if absent:
        yield (
            f"{len(absent):,} of {len(placed):,} classes are no nouns of WordNet 3.0 and were compared by name alone: "
            f"{_listed(absent)}."
        )
    ambiguous = [f"{class_id} ({len(one.senses)})" for class_id, one in placed.items() if len(one.senses) > 1]
    if ambiguous:
        yield f"Names with several senses in WordNet were taken in the first one: {_listed(ambiguous)}."


def _placed(classes: Mapping[str, str]) -> dict[str, _Placed]:
    return {class_id: _place(class_id, name) for class_id, name in classes.items()}


def _place(class_id: str, name: str) -> _Placed:
    wordnet = load_wordnet()
    if _WNID.fullmatch(class_id):
        try:
            row = wordnet.row(class_id)
        except TaxonomyError:
            return _Placed(ComparedClass(class_id, name))
        return _Placed(ComparedClass(class_id, name, (row,), _words(wordnet.lemmas(row))))
    senses = _senses(name)
    return _Placed(ComparedClass(class_id, name, senses[:1], _words([name])), senses)


def _senses(name: str) -> tuple[int, ...]:
    """The synsets of a name as a noun, with or without a plural ending, as separate words or one, the usual first."""
    words = _WORD.findall(name.casefold())
    spelled = (word for joint in (" ", "-", "") for word in variants(joint.join(words)))
    return next((found for word in spelled if (found := load_wordnet().senses(word))), ())


def _words(names: Iterable[str]) -> frozenset[str]:
    """The names without case, plural endings, spaces, hyphens and what else is neither a letter nor a digit."""
    plain = ("".join(letter for letter in name.casefold() if letter.isalnum()) for name in names)
    return frozenset(word for name in plain if name for word in variants(name))


def _items(placed: Mapping[str, _Placed], *, every: bool = False) -> dict[str, ComparedClass]:
    """The classes by id, with all their senses if `every`."""
    return {
        class_id: replace(one.item, rows=one.senses) if every and one.senses else one.item
        for class_id, one in placed.items()
    }


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _shown(item: ComparedClass) -> str:
    return item.id if item.id == item.name else f"{item.id} ({item.name})"
