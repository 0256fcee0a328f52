import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy import tables
from taxonomy.errors import TaxonomyError
from taxonomy.wordnet import nouns
from taxonomy.wordnet.nouns import ROOT

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


@pytest.mark.parametrize("wnid", ["n99999999", "n00000000", "n02084072"])
def test_an_unknown_wnid_is_refused(wnid):
    with pytest.raises(TaxonomyError, match=f"{wnid} is no noun of WordNet 3.0"):
        WN.row(wnid)


@pytest.mark.parametrize("wnid", ["", "dog", "n123", "v02084071", "02084071", "n0208407x", "n٠٢٠٨٤٠٧١"])
def test_what_is_no_wnid_is_refused(wnid):
    with pytest.raises(TaxonomyError, match="is not a wnid"):
        WN.rows([DOG, wnid])


def test_the_dog_has_its_two_hypernyms():
    # data.noun: 02084071 ... @ 02083346 n 0000 @ 01317541 n 0000
    assert wnids(WN.hypernyms(WN.row(DOG))) == [CANINE, "n01317541"]


def test_lemmas_keep_order_and_case_and_have_spaces():
    assert WN.lemmas(WN.row(DOG)) == ("dog", "domestic dog", "Canis familiaris")


def test_instances_have_hypernyms_too():
    einstein = WN.senses("einstein")[0]
    assert [WN.lemmas(row)[0] for row in WN.hypernyms(einstein)] == ["physicist"]


def test_senses_come_in_sense_order():
    # index.noun: crane n 5 ...: the writers Stephen and Hart Crane, the constellation, the machine, the bird.
    assert wnids(WN.senses("crane")) == ["n10914447", "n10914331", "n09295455", "n03126707", "n02012849"]
    assert WN.senses("CRANE") == WN.senses("crane")
    assert WN.senses("ice_cream") == WN.senses("ice cream") != ()
    assert WN.senses("no such word") == ()


def test_names_carry_the_sense_number():
    assert [WN.name(row) for row in WN.senses("crane")[-2:]] == ["crane.n.04", "crane.n.05"]


def test_siblings_share_a_hypernym():
    siblings = wnids(WN.siblings(WN.row(DOG)))
    assert WOLF in siblings
    assert DOG not in siblings
    assert CAT not in siblings


def test_a_path_upwards_takes_the_shortest_way():
    # dog.n.01: over domestic animal the root is 8 links away, over canine 13 (nltk: min_depth 8, max_depth 13).
    path = WN.path_up(WN.row(DOG))
    assert [WN.lemmas(row)[0] for row in path[:3]] == ["dog", "domestic animal", "animal"]
    assert WN.wnid(path[-1]) == ROOT
    assert len(path) - 1 == WN.min_depth[WN.row(DOG)] == 8
    assert WN.max_depth[WN.row(DOG)] == 13


def test_a_path_to_what_is_not_above_is_refused():
    with pytest.raises(TaxonomyError, match="no ancestor"):
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


def test_hyphens_and_underscores_separate_tokens():
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
