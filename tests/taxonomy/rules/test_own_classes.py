"""Somebody's own classes compared by WordNet: what is above or below what, and names with several senses or none."""

import pytest

from taxonomy.rules import own_classes
from taxonomy.rules.own_classes import compare_classes, naming_remarks

KNOWN = {
    "n02099601": "golden retriever",
    "n02123045": "tabby",
    "n01641577": "bullfrog",
    "n03417042": "garbage truck",
    "n07753592": "banana",
}
"""Classes of ImageNet by their wnids."""


def of_ids(*names):
    return {name: name for name in names}


def test_names_are_compared_with_wnids_by_what_is_above_them():
    """Dogs, cats, frogs and trucks among the unknown, where kinds of them are known."""
    comparison = compare_classes(of_ids("dog", "Cat", "tree_frogs", "frogs", "truck", "motor-vehicle", "wasp"), KNOWN)
    assert comparison.overlaps == {
        "dog": "n02099601",
        "Cat": "n02123045",
        "frogs": "n01641577",
        "truck": "n03417042",
        "motor-vehicle": "n03417042",
    }


@pytest.mark.parametrize(
    ("unknown", "known"),
    [("n02084071", "golden_retriever"), ("golden_retriever", "n02084071"), ("puppy", "dogs"), ("hound", "dog")],
)
def test_what_overlaps_is_above_or_below_by_nltk(unknown, known, nltk_wordnet):
    def synset(name):
        if name[1:].isdigit():
            return nltk_wordnet.synset_from_pos_and_offset("n", int(name[1:]))
        return nltk_wordnet.synsets(name, "n")[0]

    def above(one):
        return {one, *one.closure(lambda node: node.hypernyms() + node.instance_hypernyms())}

    first, second = synset(unknown), synset(known)
    assert first in above(second) or second in above(first)
    assert compare_classes(of_ids(unknown), of_ids(known)).overlaps == {unknown: known}


def test_the_closest_of_several_counts_and_of_these_the_first_known():
    known = of_ids("n02084071", "n02099601", "hound", "golden-retriever")
    assert compare_classes(of_ids("golden retriever", "Hounds", "dog"), known).overlaps == {
        "golden retriever": "n02099601",
        "Hounds": "hound",
        "dog": "n02084071",
    }


def test_spelling_does_not_matter():
    known = {"a": "Tabby cat", "b": "sea-lion", "c": "sea lion", "d": "Stra\u00dfe"}
    unknown = {"e": "tabby_CAT", "f": "Sea Lion", "g": "STRASSE", "h": "tabby cats", "i": "sealion"}
    assert compare_classes(unknown, known).overlaps == {"e": "a", "f": "b", "g": "d", "h": "a", "i": "b"}


ONE_NAME = [
    ("caf\u00e9", "cafe\u0301"),  # NFC, as most systems write it, and NFD, as macOS does
    ("\uff53\uff45\uff41\uff4c", "seal"),  # full width
    ("\ufb01sh", "fish"),  # a ligature
    ("\U0001f431", "\U0001f431"),  # no letter at all
    ("C++", "c++"),
]


@pytest.mark.parametrize(("one", "other"), ONE_NAME)
def test_a_name_in_another_encoding_is_that_class(one, other):
    """Pairs of one name by The Unicode Standard, section 3.13 (D146), of which the known one is either."""
    for unknown, known in ((one, other), (other, one)):
        assert compare_classes(of_ids(unknown), of_ids("zebra", known)).overlaps == {unknown: known}


def test_names_that_differ_in_encoding_alone_are_named_as_such():
    comparison = compare_classes(of_ids("cafe\u0301", "Zebra"), of_ids("caf\u00e9", "zebra"))
    assert comparison.remarks[1] == (
        "An unknown class has the name of a known one: cafe\u0301 (cafe\\u0301) and caf\u00e9 (caf\\xe9) differ in "
        "encoding alone."
    )


def test_a_synset_is_found_by_a_name_in_full_width():
    """The dog above the golden retriever, as WordNet has it."""
    assert compare_classes(of_ids("\uff44\uff4f\uff47"), KNOWN).overlaps == {"\uff44\uff4f\uff47": "n02099601"}
    assert naming_remarks(of_ids("\uff42anana")) == (
        "Names with several senses in WordNet were taken in the first one: \uff42anana (2).",
    )


@pytest.mark.parametrize(("one", "other"), [("\u0915\u093f", "\u0915\u093e"), ("x\u0302", "x"), ("a\u0302", "a")])
def test_vowels_and_accents_that_are_marks_are_part_of_a_name(one, other):
    """Two syllables of Hindi, and letters with and without a circumflex."""
    assert compare_classes(of_ids(one), of_ids(other)).overlaps == {}


def test_what_is_not_in_wordnet_is_compared_by_name_and_listed():
    classes = of_ids("gizmo_x", "far_ood_flat", "n99999999", "banana")
    comparison = compare_classes(classes, {**KNOWN, "Gizmo-X": "Gizmo-X"})
    assert comparison.overlaps == {"gizmo_x": "Gizmo-X", "banana": "n07753592"}
    assert comparison.remarks[0] == (
        "3 of 4 classes are no nouns of WordNet 3.0 and were compared by name alone: gizmo_x, far_ood_flat, n99999999."
    )


def test_names_with_several_senses_say_so():
    """By WordNet's own `wn seal -over`: the first is sealing wax, and the last the animal, as a sea lion is."""
    known = {"n02077923": "sea lion", "n04179913": "sewing machine"}
    comparison = compare_classes(of_ids("seal", "sewing machine"), known)
    assert comparison.overlaps == {"sewing machine": "n04179913"}
    assert comparison.remarks == (
        "Names with several senses in WordNet were taken in the first one: seal (9).",
        "In other senses of their names these would overlap, and are not counted: seal and n02077923 (sea lion). "
        "Name a folder by its wnid to say which sense is meant.",
    )
    assert compare_classes({"n02076196": "seal"}, known) == own_classes.ClassComparison({"n02076196": "n02077923"}, ())


def test_known_classes_have_remarks_of_their_own():
    assert naming_remarks(KNOWN) == ()
    assert naming_remarks(of_ids("banana", "tabby cat")) == (
        "Names with several senses in WordNet were taken in the first one: banana (2).",
    )
    assert naming_remarks(of_ids("---", "bananas"))[0].endswith("by name alone: ---.")


def test_a_sentence_names_so_many_classes():
    """A manifest takes 100,000 characters."""
    (remark,) = naming_remarks(of_ids(*(f"no such class {number:0240}" for number in range(400))))
    assert remark.endswith(f"{299:0240} and 100 more.")
    assert len(remark) < 100_000
