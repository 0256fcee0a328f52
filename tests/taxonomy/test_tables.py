import json
import re
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from taxonomy import decisions, overlaps, tables
from taxonomy.wordnet import nouns

WN = nouns.load_wordnet()
PLACES = overlaps.CLOSENESS | {overlaps.NONE: len(overlaps.CLOSENESS)}
LISTING = Path(__file__).parents[2] / ".." / "shared" / "reference" / "caltech256_counts.json"
FILES = sorted(path.name for path in (resources.files("taxonomy") / "data").iterdir() if path.name.endswith(".csv"))

# Rows as the sources say: ILSVRC 2012, Tiny ImageNet, the full ImageNet release, CIFAR-100, Food-101, Describable
# Textures, Caltech-256 with its folder of clutter, Places365, SUN397, COCO, the iNaturalist subset; 400 images each of
# three sets that NINCO's authors looked at, and the two lists of 2,000 of BROAD; the classes of the lists of OpenOOD
# and ImageNet-OOD; CUB-200-2011, FGVC-Aircraft. Other decisions and grades have a row for each of these
# (`test_decisions.py`, `rules/test_facets.py`), and `test_lists.py` counts lists.
COUNTS = {
    "imagenet1k.csv": 1000,
    "tiny_imagenet200.csv": 200,
    "tiny_imagenet_val.csv": 200,
    "imagenet_tree.csv": 21_841,
    "cifar10.csv": 10,
    "cifar100.csv": 100,
    "cifar_order.csv": 4,
    "cifar100_wnids.csv": 103,
    "food101.csv": 101,
    "dtd.csv": 47,
    "caltech256.csv": 257,
    "places365.csv": 365,
    "places365_wnids.csv": 365,
    "sun397.csv": 397,
    "overrides.csv": 2,
    "broken_images.csv": 2,
    "examined_images.csv": 1200,
    "inaturalist.csv": 10_000,
    "ninco.csv": 64,
    "imagenet_c.csv": 1000,
    "imagenet_es.csv": 200,
    "imagenet_r.csv": 200,
    "cub200.csv": 200,
    "fgvc_aircraft.csv": 100,
    "coco80.csv": 80,
    "broad_cocomagenet.csv": 4000,
    "decisions_ssb-hard.csv": 980,
    "decisions_imagenet-ood.csv": 637,
}

KEY_COLUMNS = {
    "overlaps_by_hand.csv": 4,
    **dict.fromkeys(("broken_images.csv", "cifar100_wnids.csv", "examined_images.csv", "overrides.csv"), 2),
    "cifar_order.csv": 2,
    "listed_mos_sun.csv": 2,
}
"""How many of the first columns are the key, where it is not the first alone."""


@pytest.mark.parametrize("name", FILES)
def test_a_table_is_plain_text_and_has_its_rows_sorted_unique_and_trimmed(name):
    content = (resources.files("taxonomy") / "data" / name).read_bytes()
    assert b"\r" not in content and b"\n\n" not in content and content.endswith(b"\n")
    assert not content.startswith(b"\xef\xbb\xbf")  # no byte order mark
    content.decode("utf-8")
    rows = [tuple(row.values()) for row in tables.read_csv_rows(name)]
    assert len(rows) == COUNTS.get(name, len(rows)) > 0
    width = KEY_COLUMNS.get(name, 1)
    # Overlaps stand in the order of their closeness, and their key is in columns 1, 2, 3 and 5.
    keys = [row[:width] if name != "overlaps.csv" else (*row[:3], PLACES[row[6]], row[4]) for row in rows]
    assert keys == sorted(set(keys))
    assert all(cell == cell.strip() for row in rows for cell in row)
    assert all(row[0] for row in rows)


def test_imagenet_counts_are_those_of_ilsvrc_2012():
    images = [item.train_images for item in tables.imagenet1k()]
    assert sum(images) == 1_281_167  # ILSVRC 2012 training set
    assert (min(images), max(images), images.count(1300)) == (732, 1300, 895)
    assert [item.index for item in tables.imagenet1k()] == list(range(1000))


def test_imagenet_names_are_the_first_lemmas():
    for item in tables.imagenet1k():
        assert item.name == WN.lemmas(WN.row(item.wnid))[0]
    twice = {name for name, count in Counter(item.name for item in tables.imagenet1k()).items() if count > 1}
    assert twice == {"crane", "maillot"}


def test_the_image_sets_lie_within_each_other():
    classes = {item.wnid for item in tables.imagenet1k()}
    assert set(tables.tiny_imagenet200()) < classes
    assert classes - set(tables.imagenet_tree()) == {"n04399382"}  # the teddy bear


def test_cifar100_has_20_superclasses_of_5():
    assert set(Counter(item.coarse for item in tables.cifar100()).values()) == {5}
    assert len({item.coarse for item in tables.cifar100()}) == 20
    assert [item.fine for item in tables.cifar100()] == sorted(item.fine for item in tables.cifar100())


def test_cifar100_synsets_cover_the_classes():
    rows = Counter(item.name for item in tables.cifar100_wnids())
    assert set(rows) == {item.fine for item in tables.cifar100()}
    assert {name for name, count in rows.items() if count > 1} == {"plate", "possum", "table"}
    # The two wnids that the paper prints (section 3.1).
    assert {("camel", "n02437136"), ("mouse", "n02330245")} <= {(i.name, i.wnid) for i in tables.cifar100_wnids()}


def test_textures_are_words_that_name_files():
    # The archive's files are named <texture>_<4 digits>.jpg, and one texture has a hyphen (torchvision issue 8242).
    assert [name for name in tables.dtd() if not re.fullmatch("[a-z]+", name)] == ["polka-dotted"]
    assert (tables.dtd()[0], tables.dtd()[43], tables.dtd()[46]) == ("banded", "waffled", "zigzagged")


def test_caltech256_has_the_owners_folders_and_count():
    """Griffin, Holub and Perona, Caltech-256 (2007), table 1: 30,607 images, 80 to 827 a class."""
    images = [item.images for item in tables.caltech256()]
    assert (sum(images), min(images), max(images)) == (30_607, 80, 827)
    assert [item.number for item in tables.caltech256()] == list(range(1, 258))
    assert (tables.caltech256()[132].folder, tables.caltech256()[256].name) == ("133.lightning", "clutter")


@pytest.mark.skipif(not LISTING.is_file(), reason=f"no {LISTING.name} beside this checkout")
def test_caltech256_counts_are_those_of_the_listings():
    assert {item.folder: item.images for item in tables.caltech256()} == json.loads(LISTING.read_text("utf-8"))


def test_the_paper_counts_one_more_for_each_caltech_folder():
    """Kim, Koo and Hwang's table has 4,792 images in 45 classes: what `ls -l | wc -l` says of 45 folders together."""
    folders = {decision.class_id for decision in decisions.load_decisions("caltech256") if decision.decision == "keep"}
    images = [item.images for item in tables.caltech256() if item.folder in folders]
    assert (len(images), sum(images), sum(count + 1 for count in images)) == (45, 4_747, 4_792)


@pytest.mark.parametrize("rows", [tables.places365(), tables.sun397()], ids=["places365", "sun397"])
def test_categories_have_a_letter_and_a_name(rows):
    assert all(re.fullmatch(r"/([a-z])/\1[a-z_]*(/[a-z_]+)?", item.category) for item in rows)
    names = {item.category: item.name for item in rows}
    assert names["/a/apartment_building/outdoor"] == "apartment_building/outdoor"


def test_sun397_has_the_owners_counts():
    """The owners' page: 397 categories, at least 100 images each, 108,754 in all."""
    assert sum(item.images for item in tables.sun397()) == 108_754
    assert min(item.images for item in tables.sun397()) == 100
    assert [item.index for item in tables.sun397()] == list(range(397))


def test_sun397_and_places365_share_294_categories():
    """As the paper of FACETS counts them (section IV)."""
    shared = {item.category for item in tables.sun397()} & {item.category for item in tables.places365()}
    assert len(shared) == 294


def test_places365_synsets_follow_the_categories():
    assert [item.name for item in tables.places365_wnids()] == [item.category for item in tables.places365()]
    assert len({item.wnid for item in tables.places365_wnids()}) == 321


@pytest.mark.parametrize("rows", [tables.cifar100_wnids(), tables.places365_wnids()], ids=["cifar100", "places365"])
def test_the_basis_of_each_synset_holds_in_wordnet(rows):
    for item in rows:
        name = re.sub("^/./", "", item.name).split("/")[0]
        senses = [WN.wnid(row) for row in WN.senses(name)]
        word = item.note.split(",")[0]  # the head word or the other spelling
        holds = {
            "only_sense": senses == [item.wnid],
            "first_sense": len(senses) > 1 and senses[0] == item.wnid,
            "sense": len(senses) > 1 and item.wnid in senses,
            "head_word": item.wnid in [WN.wnid(row) for row in WN.senses(word)],
            "other_spelling": item.wnid in [WN.wnid(row) for row in WN.senses(word)],
            "nearest": item.wnid not in senses,
        }
        assert holds[item.basis], item
        assert item.note or item.basis in {"only_sense", "first_sense"}, item


def test_overrides_name_classes_and_give_a_reason():
    for item in tables.overrides():
        assert item.table in decisions.TABLES
        assert item.class_id in {decision.class_id for decision in decisions.load_decisions(item.table)}
        assert len(item.reason) > 20
