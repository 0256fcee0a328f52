"""Compares the unknown classes of a person's own folders with the known ones, by WordNet 3.0 and by name.

A class is a synset if its name is a wnid, and otherwise the first sense of its name as a noun, the most frequent one.
Two classes overlap where their synsets are one, where one is above the other, or where they have one name.

Tested by `tests/taxonomy/rules/test_own_classes.py`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from taxonomy.errors import TaxonomyError
from taxonomy.overlaps import CLOSENESS
from taxonomy.rules.compared import ComparedClass
from taxonomy.rules.keywords import variants
from taxonomy.rules.overlaps import related
from taxonomy.tables import is_wnid
from taxonomy.wordnet.nouns import load_wordnet
from unknown_detection.names import differ_in_encoding, folded, told_apart
from unknown_detection.words import first_few

_NAMED = 300
"""Upper limit on the classes that a sentence names (ours): manifests and cards hold the sentences."""

_SPOKEN = "LMN"
"""Unicode's categories of letters, of marks, such as the vowels of Hindi and Thai, and of numbers."""


@dataclass(frozen=True)
class ClassComparison:
    """Unknown classes compared with known ones.

    `overlaps` has the known class that an unknown one overlaps most closely, by the unknown one's id; `remarks` are
    sentences on unknown classes without a synset, or with several senses.
    """

    overlaps: Mapping[str, str]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class _Resolved:
    """A class with its assumed synset, if any, and all senses of its name; none for a class named by a wnid."""

    item: ComparedClass
    senses: tuple[int, ...] = ()


def compare_classes(unknown: Mapping[str, str], known: Mapping[str, str]) -> ClassComparison:
    """Compare unknown classes with known ones; both are names by id."""
    # Reversed, because `related` takes the last of several classes with one synset.
    unknown_classes, known_classes = _resolve_all(unknown), dict(reversed(_resolve_all(known).items()))
    order = {class_id: place for place, class_id in enumerate(known)}
    closest: dict[str, tuple[int, int, str]] = {}
    for item, other, kind, _ in related(_items(unknown_classes), _items(known_classes)):
        candidate = (CLOSENESS[kind], order[other.id], other.id)
        closest[item.id] = min(candidate, closest.get(item.id, candidate))
    overlaps = {class_id: closest[class_id][2] for class_id in unknown if class_id in closest}
    other_senses: dict[str, str] = {}
    for item, other, kind, _ in related(_items(unknown_classes, every=True), _items(known_classes, every=True)):
        if item.id not in overlaps and CLOSENESS[kind] <= CLOSENESS["kind-of"]:
            shown = other.id if other.id == other.name else f"{other.id} ({other.name})"
            other_senses.setdefault(item.id, f"{item.id} and {shown}")
    remarks = list(_remarks(unknown_classes))
    if encoded := [told_apart(*pair) for pair in overlaps.items() if differ_in_encoding(*pair)]:
        remarks.append(f"An unknown class has the name of a known one: {first_few(encoded, _NAMED)}.")
    if other_senses:
        remarks.append(
            "In other senses of their names these would overlap, and are not counted: "
            f"{first_few([*other_senses.values()], _NAMED)}. Name a folder by its wnid to say which sense is meant."
        )
    return ClassComparison(overlaps, tuple(remarks))


def naming_remarks(classes: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence on class names that are no nouns of WordNet, and one on names with several senses."""
    return tuple(_remarks(_resolve_all(classes)))


def _remarks(classes: Mapping[str, _Resolved]) -> Iterable[str]:
    absent = [class_id for class_id, class_ in classes.items() if not class_.item.rows]
    if absent:
        yield (
            f"{len(absent):,} of {len(classes):,} classes are no nouns of WordNet 3.0 and were compared by name "
            f"alone: {first_few(absent, _NAMED)}."
        )
    ambiguous = [
        f"{class_id} ({len(class_.senses)})" for class_id, class_ in classes.items() if len(class_.senses) > 1
    ]
    if ambiguous:
        yield f"Names with several senses in WordNet were taken in the first one: {first_few(ambiguous, _NAMED)}."


def _resolve_all(classes: Mapping[str, str]) -> dict[str, _Resolved]:
    return {class_id: _resolve(class_id, name) for class_id, name in classes.items()}


def _resolve(class_id: str, name: str) -> _Resolved:
    wordnet = load_wordnet()
    if is_wnid(class_id):
        try:
            row = wordnet.row(class_id)
        except TaxonomyError:
            return _Resolved(ComparedClass(class_id, name))
        return _Resolved(ComparedClass(class_id, name, (row,), _words(wordnet.lemmas(row))))
    senses = senses_of(name)
    return _Resolved(ComparedClass(class_id, name, senses[:1], _words([name])), senses)


def senses_of(name: str) -> tuple[int, ...]:
    """Return the senses of a name as a noun, the most frequent first, of its first spelling that has any.

    It is spelled as separate words, with hyphens and as one word, each with and without plural endings.
    """
    words = _spoken(name)
    spelled = (word for joint in (" ", "-", "") for word in variants(joint.join(words)))
    return next((rows for word in spelled if (rows := load_wordnet().senses(word))), ())


def _words(names: Sequence[str]) -> frozenset[str]:
    """Return the names folded, and their letters and digits alone, with and without plural endings."""
    words = {folded(name) for name in names}
    joined = ("".join(_spoken(name)).replace("'", "") for name in names)
    return frozenset(words.union(*(variants(name) for name in joined if name)))


def _spoken(name: str) -> list[str]:
    """Return the words of a name, folded: letters with their marks, numbers, and apostrophes between them."""
    kept = (letter if letter == "'" or unicodedata.category(letter)[0] in _SPOKEN else " " for letter in folded(name))
    return [word for text in "".join(kept).split() if (word := text.strip("'"))]


def _items(classes: Mapping[str, _Resolved], *, every: bool = False) -> dict[str, ComparedClass]:
    """Return the classes by id, with all their senses if `every`."""
    return {
        class_id: replace(class_.item, rows=class_.senses) if every and class_.senses else class_.item
        for class_id, class_ in classes.items()
    }
