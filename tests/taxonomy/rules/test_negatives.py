"""Words for negative labels: none names a class or a kind of one, found here by looking upwards from every sense."""

import pytest

from taxonomy.rules.negatives import negative_words
from taxonomy.wordnet.nouns import load_wordnet
from unknown_detection.names import folded

CLASSES = {"n02084071": "dog", "crane": "crane", "Motor vehicles": "motor_vehicles", "n99999999": "qqzx", "wug": "wug"}


@pytest.fixture(scope="module")
def found():
    return negative_words(CLASSES)


def test_no_sense_of_a_word_is_a_class_or_below_one(found):
    wordnet = load_wordnet()
    tops = {wordnet.row("n02084071"), *wordnet.senses("crane"), *wordnet.senses("motor vehicle")}
    assert len(tops) == 7, "WordNet has five nouns crane, by nltk"
    for word in found.words:
        for row in wordnet.senses(word):
            assert row not in tops
            assert tops.isdisjoint(wordnet.ascent(row)), word
    for kind in ("poodle", "sandhill crane", "gantry crane", "ambulance"):
        assert kind not in found.words
    assert found.excluded["poodle"] == ("n02113335", "n02084071")
    assert found.excluded["whooping crane"][1] == "crane"
    assert found.unknown == ("n99999999", "wug")


def test_every_noun_is_taken_or_left_out_with_a_reason(found):
    wordnet = load_wordnet()
    first = {wordnet.lemmas(row)[0] for row in range(len(wordnet))}
    assert {*found.words} | {*found.excluded} <= first
    assert {*map(folded, first)} == {*map(folded, found.words)} | {*map(folded, found.excluded)}
    assert len({*map(folded, found.words)}) == len(found.words)
    assert not {*found.words} & {*found.excluded}
    assert [*found.words] == sorted(found.words)
    assert all(wordnet.lemmas(wordnet.row(wnid))[0] == word for word, wnid in found.words.items())
    assert {"cat", "wolf", "hydrogen"} <= {*found.words}


def test_a_name_that_is_no_noun_is_left_out_by_its_letters():
    """Whatever a class is called, its word is none of the negatives."""
    found = negative_words({"a": "HYDROGEN"})
    assert "hydrogen" not in found.words
    assert all(folded(word) != "atomic number 1" for word in found.words), "a lemma of the same synset"
