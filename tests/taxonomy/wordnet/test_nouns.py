import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy import tables
from taxonomy.errors import TaxonomyError
from taxonomy.wordnet import nouns
from taxonomy.wordnet.nouns import ROOT
from tests.sentences import stops

WN = nouns.load_wordnet()
DOG, CAT, CANINE, WOLF = "n02084071", "n02121620", "n02083346", "n02114100"
rows = st.integers(0, len(WN) - 1)


def wnids(rows):
    return [WN.wnid(row) for row in rows]


def test_counts_are_those_of_the_manual_page_wnstats():
    # wnstats(7WN) for WordNet 3.0, nouns: 82,115 synsets, 117,798 unique strings, 146,312 word-sense pairs.
    pairs = {(lemma.lower(), row) for row in range(len(WN)) for lemma in WN.lemmas(row)}
    assert len(WN) == 82_115
    assert len({lemma for lemma, _ in pairs}) == 117_798
    assert len(pairs) == 146_312


def test_every_wnid_of_the_tables_resolves():
    everything = [
        *(item.wnid for item in tables.imagenet1k()),
        *tables.tiny_imagenet200(),
        *tables.imagenet_tree(),
        *(item.wnid for item in tables.cifar100_wnids()),
        *(item.wnid for item in tables.places365_wnids()),
    ]
    assert wnids(WN.rows(everything)) == everything


UNKNOWN = dict.fromkeys(("n99999999", "n00000000", "n02084072"), r"{} is no noun of WordNet 3\.0")
NO_WNID = ("", "dog", "n123", "v02084071", "02084071", "n0208407x", "n٠٢٠٨٤٠٧١")


@pytest.mark.parametrize(("wnid", "words"), (UNKNOWN | dict.fromkeys(NO_WNID, "is not a wnid")).items())
def test_an_unknown_wnid_and_what_is_none_are_refused(wnid, words):
    with pytest.raises(TaxonomyError, match=words.format(wnid)):
        WN.rows([DOG, wnid])


def test_the_dog_has_its_lemmas_hypernyms_and_siblings():
    # data.noun: 02084071 ... @ 02083346 n 0000 @ 01317541 n 0000
    assert wnids(WN.hypernyms(WN.row(DOG))) == [CANINE, "n01317541"]
    assert WN.lemmas(WN.row(DOG)) == ("dog", "domestic dog", "Canis familiaris")
    siblings = wnids(WN.siblings(WN.row(DOG)))
    assert WOLF in siblings and not {DOG, CAT} & set(siblings)


def test_instances_have_hypernyms_too():
    einstein = WN.senses("einstein")[0]
    assert [WN.lemmas(row)[0] for row in WN.hypernyms(einstein)] == ["physicist"]


def test_senses_come_in_sense_order():
    # index.noun: crane n 5 ...: the writers Stephen and Hart Crane, the constellation, the machine, the bird.
    assert wnids(WN.senses("crane")) == ["n10914447", "n10914331", "n09295455", "n03126707", "n02012849"]
    assert [WN.name(row) for row in WN.senses("crane")[-2:]] == ["crane.n.04", "crane.n.05"]
    assert WN.senses("CRANE") == WN.senses("crane")
    assert WN.senses("ice_cream") == WN.senses("ice cream") != ()
    assert WN.senses("no such word") == ()


def test_a_path_upwards_takes_the_shortest_way():
    # dog.n.01: over domestic animal the root is 8 links away, over canine 13 (nltk: min_depth 8, max_depth 13).
    path = WN.path_up(WN.row(DOG))
    assert [WN.lemmas(row)[0] for row in path[:3]] == ["dog", "domestic animal", "animal"]
    assert WN.wnid(path[-1]) == ROOT
    assert len(path) - 1 == WN.min_depth[WN.row(DOG)] == 8
    assert WN.max_depth[WN.row(DOG)] == 13
    with stops(TaxonomyError):
        WN.path_up(WN.row(DOG), WN.row(CAT))


def test_the_tree_has_one_root_above_everything():
    root = WN.row(ROOT)
    assert np.flatnonzero(np.diff(WN.parent_start) == 0).tolist() == [root]
    assert len(WN.descendants(root)) == len(WN) - 1
    assert len(WN.ancestors(root)) == 0


def test_containing_matches_whole_tokens_only():
    matches = {WN.wnid(row): whole for row, whole in WN.containing("hot dog").items()}
    assert matches["n07697537"] is True  # hotdog, hot dog, red hot: the ImageNet class
    assert all("hot dog" in " ".join(WN.lemmas(WN.row(wnid))).lower().replace("-", " ") for wnid in matches)
    lighthouse = WN.row("n02814860")
    assert lighthouse in WN.containing("lighthouse")
    assert lighthouse not in WN.containing("house")
    assert WN.containing("lightning")[WN.row("n02168245")] is False  # lightning bug
    assert WN.containing("") == {}
    assert WN.containing("ice_cream_cone") == WN.containing("ice-cream cone") != {}


@given(rows)
def test_ancestors_are_those_of_the_hypernyms(row):
    parents = WN.hypernyms(row)
    assert np.array_equal(WN.ancestors(row), np.union1d(parents, WN.ancestors(parents)))
    assert all(row in WN.descendants(ancestor) for ancestor in parents)
    assert all(row in WN.ancestors(below) for below in WN.descendants(row)[:5])


@given(rows)
def test_every_lemma_leads_back(row):
    for lemma in WN.lemmas(row):
        assert row in WN.senses(lemma)
        assert WN.containing(lemma)[row] is True


@given(rows)
def test_depths_are_those_of_the_hypernyms_plus_one(row):
    parents = WN.hypernyms(row)
    if len(parents):
        assert WN.min_depth[row] == 1 + WN.min_depth[parents].min()
        assert WN.max_depth[row] == 1 + WN.max_depth[parents].max()
