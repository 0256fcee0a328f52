import decimal
import itertools
import re
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from taxonomy import decisions, tables
from taxonomy.errors import TaxonomyError
from taxonomy.grading import ANIMAL_RULE, GRADED, GRADING, NO_ANIMALS
from taxonomy.rules import facets, facets_rules
from taxonomy.wordnet import similarity
from taxonomy.wordnet.nouns import load_wordnet
from tests.sentences import stops

PLACES = [item.category for item in tables.places365()]
DOCUMENTATION = (Path(__file__).parents[3] / "docs" / "benchmarks" / "facets.md").read_text(encoding="utf-8")
OUT_GRADES = {"imagenet": 1, "sun397": 3}  # the last grade, which no Places365 class is related to


def members(table, decision="in_distribution"):
    return {item.class_id for item in decisions.load_decisions(table) if item.decision == decision}


def possible_oodness():
    """Every value that OODness could take in a taxonomy as deep as WordNet's, with 50 digits, ascending.

    Links + 1 run from 1 to 38, the depth of a subsumer from 1 to 20 and the two distances to it up to 19 each.
    """
    with decimal.localcontext(prec=50):
        path_terms = [1 / Decimal(n) + 1 - Decimal(n).ln() / Decimal(38).ln() for n in range(1, 39)]
        fractions = {Fraction(2 * depth, links + 2 * depth) for depth in range(1, 21) for links in range(39)}
        wu_palmer = [Decimal(term.numerator) / Decimal(term.denominator) for term in fractions]
        return sorted(1 - (one + other) / 3 for one in path_terms for other in wu_palmer)


# ---- grades


def test_every_class_is_graded_once_under_its_own_name():
    assert [(item.class_id, item.class_name) for item in facets.grades("imagenet")] == [
        (item.wnid, item.name) for item in tables.imagenet1k()
    ]
    assert [(item.class_id, item.class_name) for item in facets.grades("sun397")] == [
        (item.category, item.name) for item in tables.sun397()
    ]


@pytest.mark.parametrize("source", GRADED)
def test_a_grade_is_that_of_its_rule_and_has_a_reason_and_the_places365_class_that_decided(source):
    last, rules, grades = OUT_GRADES[source], GRADING[source], facets.grades(source)
    assert {item.rule for item in grades} == set(rules)
    for item in grades:
        assert item.grade in range(last + 1)
        assert item.grade == rules[item.rule][0], item
        assert (item.related in PLACES) if item.grade < last else item.related == "", item
    # Each class has a line of its own, which is printed as it is.
    reasons = [item.reason for item in grades]
    assert len(set(reasons)) == len(reasons)
    for reason in reasons:
        assert len(reason.split()) >= 3 and len(reason) <= 119 and reason[0].isupper(), reason
        assert not reason.endswith("."), reason


def test_sun397_has_grade_0_where_places365_has_the_name():
    for item in facets.grades("sun397"):
        assert (item.grade == 0) == (item.class_id in PLACES), item
        assert item.grade or item.related == item.class_id


def test_imagenet_classes_that_bear_a_places365_name_have_grade_0():
    graded = {item.class_id: item.grade for item in facets.grades("imagenet")}
    assert {graded[class_id] for class_id in members("facets-inter-dataset", "shared")} == {0}


def test_the_totals_in_the_documentation_are_those_of_the_tables():
    printed = {
        (source.lower(), int(grade)): int(ours)
        for source, grade, ours in re.findall(r"^\| (SUN397|ImageNet), (\d) \| (\d+) \| \d+ \|", DOCUMENTATION, re.M)
    }
    assert printed == Counter((source, item.grade) for source in GRADED for item in facets.grades(source))
    animals = len(members("facets-imagenet")) - len(members(NO_ANIMALS))
    assert f"{animals} animals" in DOCUMENTATION
    assert f"| ImageNet, 0, without animals | {len(members(NO_ANIMALS))} | 356 |" in DOCUMENTATION


def test_the_rows_in_the_documentation_are_halves_of_the_classes_images():
    """With round(n * 0.5) images of a class in validation, as for the paper's 7,530 and 4,554."""
    half = {item.category: round(item.images * 0.5) for item in tables.sun397()}
    rows = [sum(half[item.class_id] for item in facets.grades("sun397") if item.grade >= least) for least in (2, 3)]
    assert f"{rows[0]:,} and {rows[1]:,}." in DOCUMENTATION.replace("\n", " ")


def ancestors(wnid):
    wordnet = load_wordnet()
    return {wordnet.wnid(row) for row in wordnet.ancestors(wordnet.row(wnid)).tolist()}


def test_animals_are_graded_by_the_rules_of_animals_and_nothing_else_is():
    """By WordNet 3.0, whose animals descend from n00015388, domestic dogs from n02084071 and cats from n02121808."""
    extinct = {"triceratops", "trilobite"}
    for item in facets.grades("imagenet"):
        above = ancestors(item.class_id)
        if "n00015388" in above:
            assert item.rule in {"habitat", "kept", "ranges"} or item.class_name in extinct, item
            assert (item.rule == "kept") or not above & {"n02084071", "n02121808"}, item
        else:
            assert item.rule not in {"habitat", "kept"}, item


def test_what_ranges_is_said_to_live_in_more_than_one_kind_of_place():
    for item in facets.grades("imagenet"):
        assert item.rule != "ranges" or re.search(r",| and | or ", item.reason), item


def test_the_other_reading_takes_the_animals_away_and_nothing_else():
    taken = members("facets-imagenet") - members(NO_ANIMALS)
    assert members(NO_ANIMALS) < members("facets-imagenet")
    assert taken == {item.class_id for item in facets.grades("imagenet") if item.rule == ANIMAL_RULE}
    assert all("n00015388" in ancestors(wnid) for wnid in taken)


@pytest.mark.parametrize(
    "alike",
    [
        "baseball, golf ball, soccer ball, volleyball, basketball, rugby ball, puck, croquet ball, ping-pong ball",
        "cello, violin, oboe, bassoon, French horn, trombone, flute, harp, cornet, sax, marimba, drum, grand piano",
        "acoustic guitar, banjo, accordion, harmonica, ocarina, panpipe, maraca",
        "wok, frying pan, Dutch oven, coffeepot, teapot, Crock Pot, can opener, corkscrew",
        "ambulance, fire engine",
        "airliner, warplane",
        "maypole, totem pole, flagpole, pole",
        "stinkhorn, coral fungus, agaric, gyromitra, earthstar, hen-of-the-woods, bolete",
        "great white shark, grey whale, killer whale, loggerhead, leatherback turtle, starfish, sea urchin, jellyfish",
        "ice bear, Arctic fox, ptarmigan, white wolf",
        "zebra, impala, gazelle, hartebeest, African elephant, bison, lion, cheetah",
        "bighorn, ibex, marmot, snow leopard",
        "hog, ram, sorrel, ox, water buffalo, Arabian camel, llama",
        "hippopotamus, American alligator, African crocodile, otter",
        "computer keyboard, typewriter keyboard, mouse, monitor",
    ],
)
def test_things_of_a_kind_have_one_grade(alike):
    graded = {item.class_name: item.grade for item in facets.grades("imagenet")}
    assert len({graded[name] for name in alike.split(", ")}) == 1


@pytest.mark.parametrize(
    ("alike", "grade"),
    [
        ("/a/abbey /m/monastery/outdoor", 1),
        ("/b/brewery/indoor /c/cheese_factory", 2),
        ("/c/chicken_coop/indoor /c/chicken_coop/outdoor", 2),
        ("/e/electrical_substation /n/nuclear_power_plant/outdoor /p/power_plant/outdoor", 2),
        ("/b/badminton_court/indoor /t/tennis_court/indoor /s/squash_court", 2),
        ("/f/factory/indoor /j/jail/indoor /b/bayou /h/herb_garden /w/wrestling_ring/indoor /h/hill", 1),
    ],
)
def test_places_of_a_kind_have_one_grade(alike, grade):
    graded = {item.class_id: item.grade for item in facets.grades("sun397")}
    assert {graded[name] for name in alike.split()} == {grade}


def test_an_ungraded_source_gets_a_suggestion():
    with stops(TaxonomyError, "sun397"):
        facets.grades("sun")


# ---- OODness


def test_every_imagenet_class_has_an_oodness():
    assert [(item.class_id, item.class_name) for item in facets.oodness()] == [
        (item.wnid, item.name) for item in tables.imagenet1k()
    ]
    synset = {item.name: item.wnid for item in tables.places365_wnids()}
    for item in facets.oodness():
        assert synset[item.place] == item.place_wnid
        mean = (item.path + item.leacock_chodorow + item.wu_palmer) / 3
        assert item.oodness == pytest.approx(1 - mean, abs=1.01e-6)  # four roundings of 5e-7 at most


def test_the_measures_of_the_nearest_place_are_nltks(nltk_wordnet):
    def synset(wnid):
        return nltk_wordnet.synset_from_pos_and_offset("n", int(wnid[1:]))

    for item in facets.oodness()[::20]:
        place, class_ = synset(item.place_wnid), synset(item.class_id)
        greatest = place.lch_similarity(place)
        theirs = place.path_similarity(class_), place.lch_similarity(class_) / greatest, place.wup_similarity(class_)
        assert (item.path, item.leacock_chodorow, item.wu_palmer) == pytest.approx(theirs, abs=5.01e-7, rel=0)


def test_no_place_is_nearer_than_the_nearest():
    """By plain arithmetic on the three measures, which other tests compare with nltk."""
    places = tables.places365_wnids()
    pairs = [item.wnid for item in places], [item.class_id for item in facets.oodness()]
    by_hand = (
        similarity.path(*pairs) + similarity.leacock_chodorow(*pairs) / np.log(38) + similarity.wu_palmer(*pairs)
    ) / 3
    for column, item in zip(by_hand.T, facets.oodness(), strict=True):
        assert 1 - column.max() == pytest.approx(item.oodness, abs=5.01e-7)
        first = next(place for place, value in zip(places, column, strict=True) if value > column.max() - 1e-12)
        assert item.place == first.name


INTERIORS = {"/b/bus_interior": "n02924116", "/c/car_interior": "n02958343", "/t/train_interior": "n04468005"}


@pytest.mark.parametrize(
    ("other", "totals"),
    [
        ({}, "60, 87 and 143"),
        ({"/b/booth/indoor": "n02873839"}, "58, 85, 132"),
        ({"/e/elevator/door": "n03281145"}, "61, 90, 166"),
        (INTERIORS, "78, 114, 179"),
        ({"/p/pavilion": "n03430418"}, "59, 86, 143"),
    ],
)
def test_what_other_synsets_would_give_is_as_the_module_says(other, totals):
    places = [other.get(item.name, item.wnid) for item in tables.places365_wnids()]
    best = similarity.mean_normalised(places, [item.wnid for item in tables.imagenet1k()]).max(axis=0)
    counts = [int((1 - best <= threshold).sum()) for threshold in facets.THRESHOLDS.values()]
    assert [int(number) for number in re.findall(r"\d+", totals)] == counts
    assert totals in facets_rules.__doc__


def test_the_order_of_wu_palmer_matters_for_monastery_with_the_other_palace():
    places = [item.wnid if item.name != "/p/palace" else "n03878066" for item in tables.places365_wnids()]
    monastery = ["n03781244"]
    assert 1 - similarity.mean_normalised(places, monastery).max() < 0.45
    assert 1 - similarity.mean_normalised(monastery, places).max() > 0.45


def test_a_class_of_both_datasets_is_at_no_distance():
    by_name = {item.class_name: item for item in facets.oodness()}
    assert (by_name["barn"].place, by_name["barn"].oodness) == ("/b/barn", 0.0)
    # Wu-Palmer's oddity, by hand: bakery is 7 links below the root over workplace, its other hypernym shop 9, so that
    # shop is the subsumer of bakery with itself: 2 * 10 / (1 + 1 + 2 * 10). The other two measures are 1.
    assert by_name["bakery"].place == "/b/bakery/shop"
    assert by_name["bakery"].oodness == pytest.approx((1 - 20 / 22) / 3, abs=5e-7)


def test_the_rounding_of_no_platform_and_of_no_table_can_move_a_class_over_a_threshold():
    values = possible_oodness()
    for threshold in facets.THRESHOLDS.values():
        nearest = min(abs(value - Decimal(repr(threshold))) for value in values)
        assert nearest > Decimal("4.8e-6")  # the table rounds by 5e-7 at most, floats by 1e-15


def test_two_different_oodnesses_differ_by_more_than_what_counts_as_equal():
    values = possible_oodness()
    apart = [after - before for before, after in itertools.pairwise(values) if after - before > 1e-40]
    assert min(apart) > Decimal("2.9e-11")
    assert 1e-15 < facets_rules._SAME < 2.9e-11


# ---- decisions


@pytest.mark.parametrize(
    ("table", "classes"),
    # As `taxonomy.rules.facets_rules` and `docs/benchmarks/facets.md` say. The paper (tables IV and V) has 56, 90,
    # 140, 356, 319, 351.
    [
        ("facets-wordnet-t40", 60),
        ("facets-wordnet-t45", 87),
        ("facets-wordnet-t50", 143),
        ("facets-imagenet", 424),
        (NO_ANIMALS, 295),
        ("facets-t1-sun397", 294 + 52),
        ("facets-t2-sun397", 294 + 52 + 45),
    ],
)
def test_in_distribution_classes_of_each_table(table, classes):
    assert len(members(table)) == classes


def test_a_higher_threshold_or_grade_takes_no_class_away():
    assert members("facets-wordnet-t40") < members("facets-wordnet-t45") < members("facets-wordnet-t50")
    assert members("facets-t1-sun397") < members("facets-t2-sun397")
    assert members("facets-t2-sun397") - members("facets-t1-sun397") == {
        item.class_id for item in facets.grades("sun397") if item.grade == 2
    }


@pytest.mark.parametrize("table", facets.THRESHOLDS)
def test_a_decision_can_be_read_off_the_published_table(table):
    limit = Decimal(repr(facets.THRESHOLDS[table]))
    rows = tables.read_csv_rows(facets.OODNESS_FILE)
    assert members(table) == {row["class_id"] for row in rows if Decimal(row["oodness"]) <= limit}


def test_32_imagenet_classes_bear_a_places365_name():
    """The paper removes 32 and leaves 968 (section IV, table III)."""
    shared = {
        item.class_name: item for item in decisions.load_decisions("facets-inter-dataset") if item.decision == "shared"
    }
    assert len(shared) == 32
    assert len(members("facets-inter-dataset", "out_of_distribution")) == 968
    assert {"pier", "grocery store", "wardrobe"} < set(shared)  # homonyms
    assert "butcher shop" not in shared
    assert shared["beacon"].evidence == "Its lemma 'lighthouse' is the name of Places365's /l/lighthouse."
    assert shared["church"].keyword == "/c/church/indoor"
