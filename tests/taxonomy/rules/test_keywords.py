from hypothesis import given
from hypothesis import strategies as st

from taxonomy.rules.keywords import keywords, variants

PAPER = {
    # Section 3.2 lists cup, cups, cake, cakes, cupcake and cupcakes for "cup cakes"; "cups" is not in the name and can
    # only be a plural added to it, which the algorithm leaves out.
    "cup_cakes": {"cup", "cake", "cakes", "cupcake", "cupcakes"},
    # Table 4: spacing, plurals and apostrophes.
    "hot_dog": {"hotdog"},
    "chess-board": {"chessboard"},
    "dumb-bell": {"dumbbell"},
    "head-phones": {"headphones"},
    "barndoor": {"barn door"},
    "fishpond": {"fish pond"},
    "shopfront": {"shop front"},
    "donuts": {"donut"},
    "oysters": {"oyster"},
    "billiards": {"billiard"},
    "badlands": {"badland"},
    "artists_loft": {"artist loft", "artist's loft"},
    "childs_room": {"child room", "child's room"},
    "butchers_shop": {"butcher's shop"},
}


def test_the_paper_s_examples():
    assert {name: expected & set(keywords(name)) for name, expected in PAPER.items()} == PAPER


def test_marks_and_function_words_are_no_keywords():
    assert keywords("brain-101") == ("brain",)
    assert keywords("faces-easy-101") == ("fac", "face", "face's", "faces")
    assert "and" not in keywords("macaroni_and_cheese")


def test_a_qualifier_is_a_keyword_and_a_double_s_no_plural():
    assert "outdoor" in keywords("museum/outdoor")
    assert variants("glass") == ("glass",)
    assert variants("churches") == ("churches", "church", "churche", "churche's")
    assert variants("berries") == ("berries", "berry", "berri", "berrie", "berrie's")


@given(st.lists(st.text("abcs", min_size=1, max_size=5), min_size=1, max_size=4))
def test_keywords_hold_the_words_and_do_not_depend_on_the_separator(words):
    phrases = keywords("_".join(words))
    assert set(words) <= set(phrases)
    assert " ".join(words) in phrases
    assert phrases == keywords("-".join(words).upper()) == tuple(sorted(set(phrases)))
