"""Names in other cases and encodings, by definitions and examples of Unicode (UAX #15; the standard, section 3.13)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unknown_detection.names import by_name, differ_in_encoding, folded, told_apart

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FORMS = ("NFC", "NFD", "NFKC", "NFKD")

ONE_NAME = [
    ("caf\u00e9", "cafe\u0301"),  # composed and decomposed
    ("\u212bngstrom", "\u00c5ngstrom"),  # the sign of a unit and the letter
    ("\ud55c", "\u1112\u1161\u11ab"),  # Hangul's syllable and its letters
    ("\uff43\uff41\uff46\uff45", "cafe"),  # full width
    ("\ufb01sh", "fish"),  # a ligature
    ("Stra\u00dfe", "STRASSE"),  # full case folding
    ("\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c3"),  # both small sigmas
    ("\u2764\ufe0f", "\u2764"),  # a heart shown as emoji
    ("so\u00adfa", "sofa"),  # a soft hyphen
]


@pytest.mark.parametrize(("one", "other"), ONE_NAME)
def test_one_name_written_in_two_ways(one, other):
    assert one != other and folded(one) == folded(other)
    assert by_name([one, "another"])(other) == one


@pytest.mark.parametrize(("one", "other"), [("caf\u00e9", "cafe"), ("\u0915\u093f", "\u0915\u093e"), ("a b", "a_b")])
def test_other_names(one, other):
    """An accent, the vowels of Hindi, and separators, which each comparison looks after."""
    assert folded(one) != folded(other)
    assert by_name([one])(other) is None


@given(TEXTS, st.sampled_from(FORMS))
def test_every_normal_form_of_a_name_is_compared_alike(name, form):
    assert folded(unicodedata.normalize(form, name)) == folded(name)
    assert folded(folded(name)) == folded(name)


@given(TEXTS)
def test_names_match_as_unicode_defines_compatibility_caseless_matching(name):
    """D146: NFKD(toCasefold(NFKD(toCasefold(NFD(X))))), here of texts without format characters."""
    name = "".join(letter for letter in name if not differ_in_encoding(letter, "") and letter not in "\ufe00\ufe0f")

    def matched(text):
        first = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", text).casefold())
        return unicodedata.normalize("NFKD", first.casefold())

    for other in (name.upper(), name.swapcase(), name.casefold(), name + "x"):
        assert (folded(name) == folded(other)) is (matched(name) == matched(other))


def test_a_name_that_is_there_goes_before_others_and_of_two_none_is_found():
    find = by_name(["a", "A", "b"])
    assert [find(name) for name in ("a", "A", "B", "\uff41", "c")] == ["a", "A", "b", None, None]


def test_a_name_that_is_there_twice_stands_for_neither():
    """As ImageNet's classes n02012849 and n03126707, both called crane."""
    find = by_name(["crane", "drum", "crane"])
    assert [find(name) for name in ("crane", "Crane", "DRUM")] == [None, None, "drum"]


def test_how_two_names_differ():
    assert told_apart("caf\u00e9", "cafe\u0301") == (
        "caf\u00e9 (caf\\xe9) and cafe\u0301 (cafe\\u0301) differ in encoding alone"
    )
    assert told_apart("Dog", "dog") == "Dog and dog differ in case alone"
    assert told_apart("Caf\u00e9", "cafe\u0301").endswith("differ in case and encoding alone")
    assert not differ_in_encoding("Dog", "dog") and not differ_in_encoding("dog", "dog")
