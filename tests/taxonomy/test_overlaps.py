"""The table of overlaps: its computable half against WordNet by way of nltk, its other half against what is known."""

import re

import pytest

from taxonomy import overlaps, tables
from taxonomy.errors import TaxonomyError
from taxonomy.rules import facets
from taxonomy.rules import overlaps as rule


def pairs(benchmark, source, kinds=overlaps.CLOSENESS):
    return {
        (row.class_name, row.known_name) for row in overlaps.source_overlaps(benchmark, source) if row.kind in kinds
    }


def test_every_entry_has_a_kind_a_class_and_evidence():
    for row in overlaps.load_overlaps():
        assert row.benchmark in overlaps.LABEL_SPACES
        assert row.kind in (*overlaps.CLOSENESS, overlaps.NONE)
        assert bool(row.known) is bool(row.known_name) is (row.kind != overlaps.NONE), row
        assert row.basis in ("WordNet", "FACETS grade", "by hand")
        assert row.evidence
    alone = {}
    for row in overlaps.load_overlaps():
        alone.setdefault((row.benchmark, row.source, row.class_id), []).append(row.kind)
    assert all(kinds == [overlaps.NONE] or overlaps.NONE not in kinds for kinds in alone.values())


# The synsets of CIFAR's classes, which have names alone.
NAMED = {(item.name, item.wnid) for item in tables.cifar100_wnids()}
NAMED |= {(row["class"], row["wnid"]) for row in tables.read_csv_rows("cifar10.csv")}


# Miller et al., WordNet 3.0, read with nltk where its files are installed.
def test_what_wordnet_says_is_so_by_nltk(nltk_wordnet):
    def synset(wnid):
        return nltk_wordnet.synset_from_pos_and_offset("n", int(wnid[1:]))

    rows = [row for row in overlaps.load_overlaps() if row.basis == "WordNet"][::40]
    related = [row for row in rows if row.kind in ("descendant", "ancestor", "kind-of")]
    assert len(related) > 40
    for row in related:
        low, high = re.findall(r"n\d{8}", row.evidence)[:2]
        if row.kind != "kind-of":
            known = low if row.kind == "ancestor" else high
            assert known == row.known or (row.known, known) in NAMED, row
        above = set(synset(low).closure(lambda one: one.hypernyms() + one.instance_hypernyms()))
        assert synset(high) in above, row


# The reviewer's list of classes that share a meaning, from papers and pictures, unknown first.
REVIEWED = {
    ("imagenet", "imagenet"): """
        agaric|mushroom; tusker|African elephant; space bar|computer keyboard; scuba diver|snorkel;
        rock beauty|coral reef; anemone fish|coral reef; lionfish|coral reef; brassiere|bikini; book jacket|comic book;
        plow|tractor; shower curtain|bathtub; oxcart|ox; barber chair|barbershop; tub|bathtub; sunglass|sunglasses;
        desktop computer|computer keyboard; typewriter keyboard|computer keyboard; tape player|CD player;
        cassette player|CD player; grille|convertible; grille|sports car; car wheel|convertible; car wheel|sports car;
        car mirror|convertible; car mirror|sports car; pier|viaduct; pier|steel arch bridge;
        African crocodile|American alligator; crane|crane""",
    ("imagenet", "food101"): "escargots|snail; escargots|plate",
    ("imagenet", "caltech256"): """
        menorah|candle; harpsichord|organ; vcr|CD player; flashlight|torch; people|cardigan; people|sock""",
    ("imagenet", "places365"): """
        aqueduct|viaduct; staircase|bannister; aquarium|goldfish; raceway|go-kart; harbor|lifeboat; plaza|obelisk;
        lagoon|seashore; lagoon|coral reef; islet|seashore; islet|coral reef; wave|seashore; wave|coral reef;
        glacier|alp; snowfield|alp; butte|cliff; classroom|desk""",
    ("cifar", "imagenet"): "lampshade|lamp; freight car|train; bison|cattle; American alligator|crocodile",
    ("cifar", "lsun"): """
        bridge|bridge; living room|couch; living room|table; living room|lamp; living room|television""",
}


@pytest.mark.parametrize("of", REVIEWED, ids="/".join)
def test_the_overlaps_that_were_found_by_a_second_reader_are_there(of):
    listed = {tuple(pair.strip().split("|")) for pair in REVIEWED[of].split(";")}
    assert listed <= pairs(*of)


def test_every_plate_of_food_64_dogs_15_snakes_and_7_fungi_are_there():
    """The numbers are the second reader's, counted in the lists of classes."""
    assert len([name for name, known in pairs("imagenet", "food101") if known == "plate"]) == 32
    near = [pair for pair in pairs("imagenet", "imagenet") if pair[1] in ("Chihuahua", "boa constrictor", "mushroom")]
    counted = {known: len({name for name, other in near if other == known}) for _, known in near}
    assert counted == {"Chihuahua": 64, "boa constrictor": 15, "mushroom": 7}


KNOWN = set(tables.tiny_imagenet200())


def test_only_the_known_classes_of_a_config_count_and_the_closest_comes_first():
    """CIFAR's known classes are drawn: LSUN's bridge overlaps where bridge is among them."""
    assert overlaps.closest("cifar", "lsun", ["bridge", "lamp"])["bridge"].known == "bridge"
    assert "bridge" not in overlaps.closest("cifar", "lsun", ["lamp"])
    assert overlaps.closest("imagenet", "food101", KNOWN)["escargots"].known == "n01944390"  # the snail, not the plate
    without = overlaps.closest("imagenet", "food101", KNOWN - {"n01944390"})
    assert without["escargots"].known == "n07579787"


def test_facets_grades_are_its_overlaps():
    """Every grade names its Places365 class; a class that our grades put beyond all of them has none but WordNet's."""
    for source in facets.GRADED:
        closest = overlaps.closest("facets", source, [item.category for item in tables.places365()])
        for grade in facets.grades(source):
            if grade.related:
                assert grade.class_id in closest
            elif grade.class_id in closest:
                assert closest[grade.class_id].basis == "WordNet"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("imagenet,food101,baklava,n07579787,near,Why", "the kind 'near'"),
        ("imagenet,food101,baklava,n99999999,same,Why", "n99999999 is not among the 200 in-distribution classes"),
        ("imagenet,food101,pancakes,n07579787,same,Why", "names pancakes, which food101 does not have"),
        ("imagenet,food101,baklava,n07579787,none,Why", "the kind 'none'"),
        ("imagenet,food101,baklava,n07579787,same,", "a reason is missing"),
        ("imagenet,imagenet,n02087394,,none,Looked at", "n02087394 of imagenet has no overlap"),  # a dog, by WordNet
    ],
)
def test_a_wrong_line_by_hand_is_refused(line, sentence, monkeypatch):
    names = ("benchmark", "source", "class_id", "known", "kind", "reason")
    row = dict(zip(names, line.split(","), strict=True))
    read = tables.read_csv_rows
    monkeypatch.setattr(tables, "read_csv_rows", lambda name: [row] if name == rule.BY_HAND_FILE else read(name))
    rule.overlaps.cache_clear()
    with pytest.raises(TaxonomyError, match=re.escape(sentence)):
        rule.overlaps()
    rule.overlaps.cache_clear()
