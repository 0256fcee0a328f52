import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxonomy import tables
from taxonomy.errors import TaxonomyError
from taxonomy.wordnet import nouns, similarity
from taxonomy.wordnet.nouns import ROOT
from tests.sentences import stops

WN = nouns.load_wordnet()
DOG, CAT, PHYSICAL_ENTITY = "n02084071", "n02121620", "n00001930"
MEASURES = {
    similarity.path: 1.0,
    similarity.leacock_chodorow: math.log(38),
    similarity.wu_palmer: 1.0,
    similarity.mean_normalised: 1.0,
}
sets = st.lists(st.integers(0, len(WN) - 1).map(WN.wnid), min_size=1, max_size=4)


def test_the_depth_of_the_taxonomy_is_the_longest_path():
    assert WN.max_depth.max() == similarity.TAXONOMY_DEPTH


@pytest.mark.parametrize(
    ("measure", "dog_and_cat", "root_and_child"),
    # As printed in nltk's own documentation, howto/wordnet, for dog.n.01 and cat.n.01. By hand: four links over
    # carnivore, 1 / 5, ln(38 / 5) and, carnivore being 11 links below the root at the most, 2 * 12 / (2 + 2 + 2 * 12).
    # The root and its child have one link; their subsumer is the root, of depth 1, so Wu-Palmer is 2 / (0 + 1 + 2).
    [
        (similarity.path, 0.2, 1 / 2),
        (similarity.leacock_chodorow, 2.0281, math.log(19)),
        (similarity.wu_palmer, 0.8571, 2 / 3),
    ],
)
def test_pairs_by_hand(measure, dog_and_cat, root_and_child):
    assert measure([DOG], [CAT])[0, 0] == pytest.approx(dog_and_cat, abs=5e-5)
    assert measure([ROOT], [PHYSICAL_ENTITY])[0, 0] == pytest.approx(root_and_child, abs=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_shape_and_order_follow_the_arguments(measure):
    whole = measure([DOG, CAT, ROOT], [CAT, PHYSICAL_ENTITY])
    assert whole.shape == (3, 2)
    assert whole[2, 1] == measure([ROOT], [PHYSICAL_ENTITY])[0, 0]
    assert measure([], [CAT]).shape == (0, 1)
    assert measure([CAT], []).shape == (1, 0)


@pytest.mark.parametrize("measure", MEASURES)
def test_an_unknown_wnid_is_refused(measure):
    with stops(TaxonomyError, "3.0"):
        measure([DOG], ["n00000001"])


def deepest_of_its_line(wnid):
    """Whether no ancestor has a greater minimum depth, as person's ancestor organism has (over living thing)."""
    row = WN.row(wnid)
    return (WN.min_depth[WN.ancestors(row)] <= WN.min_depth[row]).all()


@pytest.mark.parametrize("measure", MEASURES)
@settings(max_examples=40)
@given(first=sets, second=sets)
def test_similarity_is_positive_and_greatest_for_equal_synsets_only(measure, first, second):
    values = measure(first, second)
    equal = np.array([[one == other for other in second] for one in first])
    greatest = MEASURES[measure]
    assert (values[~equal] < greatest).all()
    assert (values >= -1e-12).all()
    assert np.isfinite(values).all()


@pytest.mark.parametrize("measure", MEASURES)
@settings(max_examples=40)
@given(wnids=sets)
def test_similarity_to_itself_is_the_greatest(measure, wnids):
    itself = np.diag(measure(wnids, wnids))
    usual = np.array([deepest_of_its_line(wnid) for wnid in wnids])
    assert np.allclose(itself[usual], MEASURES[measure], rtol=0, atol=1e-12)
    assert (itself <= MEASURES[measure] + 1e-12).all()


def test_wu_palmer_of_a_person_with_a_person_is_below_one():
    # By hand: person is 3 links below the root over causal agent, its hypernym organism 5. Organism is therefore the
    # subsumer, of depth 6 (5 links), one link from person: 2 * 6 / (1 + 1 + 2 * 6).
    person = "n00007846"
    assert similarity.wu_palmer([person], [person])[0, 0] == pytest.approx(12 / 14)


@pytest.mark.parametrize("measure", [similarity.path, similarity.leacock_chodorow])
@settings(max_examples=40)
@given(first=sets, second=sets)
def test_measures_of_path_length_are_symmetric(measure, first, second):
    assert np.array_equal(measure(first, second), measure(second, first).T)


@settings(max_examples=40)
@given(st.integers(0, len(WN) - 1))
def test_a_hypernym_is_one_link_away(row):
    for parent in WN.hypernyms(row).tolist():
        assert similarity.path([WN.wnid(row)], [WN.wnid(parent)])[0, 0] == 0.5


def test_wu_palmer_prefers_the_first_of_two_equally_deep_subsumers():
    # Why the docstring speaks of order: the two pairs of ImageNet and Places365 classes in which it matters.
    imagenet = [item.wnid for item in tables.imagenet1k()]
    places = sorted({item.wnid for item in tables.places365_wnids()})
    one, other = similarity.wu_palmer(imagenet, places), similarity.wu_palmer(places, imagenet).T
    assert (np.abs(one - other) > 1e-9).sum() in {1, 2}


def test_places365_against_imagenet_gives_the_known_counts():
    # An independent calculation counted the ImageNet classes whose best mean similarity to a Places365 synset is at
    # least 1 - T: 60, 86 and 143 at T = 0.40, 0.45 and 0.50 for an assignment of synsets that differs in these eight.
    differing = {
        "/a/arena/hockey": "n04295881",
        "/e/elevator/door": "n03224032",
        "/f/field/wild": "n08569998",
        "/p/palace": "n03878066",
        "/r/rock_arch": "n02733524",
        "/t/throne_room": "n04105893",
        "/t/topiary_garden": "n03417345",
        "/z/zen_garden": "n03417345",
    }
    places = [differing.get(item.name, item.wnid) for item in tables.places365_wnids()]
    imagenet = [item.wnid for item in tables.imagenet1k()]
    oodness = 1.0 - similarity.mean_normalised(places, imagenet).max(axis=0)
    assert [int((oodness <= threshold).sum()) for threshold in (0.40, 0.45, 0.50)] == [60, 86, 143]


def test_all_measures_equal_nltk_on_1000_random_pairs(nltk_wordnet):
    random = np.random.default_rng(20)
    several = np.flatnonzero(np.diff(WN.parent_start) > 1)  # where paths and subsumers are ambiguous
    for block in range(10):
        pool = np.arange(len(WN)) if block % 2 else several
        first, second = ([WN.wnid(row) for row in random.choice(pool, size=10)] for _ in range(2))
        second[0] = first[0]
        synsets = {w: nltk_wordnet.synset_from_pos_and_offset("n", int(w[1:])) for w in (*first, *second)}
        ours = [measure(first, second) for measure in list(MEASURES)[:3]]
        for row, one in enumerate(first):
            for column, other in enumerate(second):
                a, b = synsets[one], synsets[other]
                theirs = [a.path_similarity(b), a.lch_similarity(b), a.wup_similarity(b)]
                assert [matrix[row, column] for matrix in ours] == pytest.approx(theirs, abs=1e-9, rel=0)


@pytest.mark.slow
def test_nltk_finds_the_depth_that_it_is_given_in_other_tests(nltk_wordnet):
    depths = dict(nltk_wordnet._max_depth)
    nltk_wordnet._max_depth.clear()
    dog = nltk_wordnet.synset_from_pos_and_offset("n", int(DOG[1:]))
    assert dog.lch_similarity(dog) == pytest.approx(math.log(38), abs=1e-12)
    assert nltk_wordnet._max_depth == depths == {("n", False): similarity.TAXONOMY_DEPTH}


def test_names_and_senses_equal_nltk(nltk_wordnet):
    for row in np.random.default_rng(21).integers(len(WN), size=200).tolist():
        synset = nltk_wordnet.synset_from_pos_and_offset("n", int(WN.wnid(row)[1:]))
        assert WN.name(row) == synset.name()
        lemma = WN.lemmas(row)[0].replace(" ", "_")
        theirs = [sense.name() for sense in nltk_wordnet.synsets(lemma, pos="n") if lemma.lower() in words(sense)]
        assert [WN.name(sense) for sense in WN.senses(lemma)] == theirs


def words(synset):
    """nltk also looks up the singular of a plural; only senses of the word itself are compared."""
    return [name.lower() for name in synset.lemma_names()]
