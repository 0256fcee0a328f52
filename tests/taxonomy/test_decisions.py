import subprocess
import sys
from pathlib import Path

import pytest

from taxonomy import decisions, tables
from taxonomy.errors import TaxonomyError
from tests.sentences import stops


def ids(table):
    return [item.class_id for item in decisions.load_decisions(table)]


def test_every_class_of_each_source_has_one_decision():
    assert ids("imagenet") == [item.wnid for item in tables.imagenet1k()]
    assert ids("tiny158") == list(tables.tiny_imagenet200())
    assert ids("cifar100") == [item.fine for item in tables.cifar100()]
    assert ids("food101") == list(tables.food101())
    assert ids("caltech256") == [item.folder for item in tables.caltech256()]
    assert ids("places365") == [item.category for item in tables.places365()]
    assert ids("cocomagenet") == sorted(item.name for item in tables.coco80())
    assert ids("openood-imagenet200") == ids("imagenet")
    assert ids("openood-textures") == list(tables.dtd())
    for table in (name for name in decisions.TABLES if name.startswith("facets-")):
        of_sun397 = [item.category for item in tables.sun397()]
        assert ids(table) == (of_sun397 if table.endswith("sun397") else ids("imagenet")), table


@pytest.mark.parametrize("table", decisions.TABLES)
def test_decisions_use_the_vocabulary_and_give_evidence(table):
    vocabulary = {
        "imagenet": {"in_distribution", "near_candidate", "external", "excluded"},
        "cifar100": {"candidate"},
        "facets-inter-dataset": {"shared", "out_of_distribution"},
        "cocomagenet": {"shared", "unshared"},
        **{name: {"in_distribution", "hard", "medium", "easy"} for name in ("ssb-cub", "ssb-aircraft")},
    }
    usual = {"in_distribution", "out_of_distribution"} if table.startswith("facets-") else {"keep", "remove"}
    allowed = vocabulary.get(table, usual)
    for item in decisions.load_decisions(table):
        assert item.decision in allowed
        assert item.rule in decisions.RULES
        assert item.evidence.endswith(".")


def test_every_rule_is_used():
    used = {item.rule for table in decisions.TABLES for item in decisions.load_decisions(table)}
    assert used == set(decisions.RULES)


@pytest.mark.parametrize(
    ("table", "class_id", "class_name"),
    [
        ("imagenet", "n01440764", "tench"),
        ("caltech256", "133.lightning", "lightning"),
        ("places365", "/a/apartment_building/outdoor", "apartment_building/outdoor"),
        ("food101", "apple_pie", "apple_pie"),
        ("tiny158", "n01882714", "koala"),
        ("facets-wordnet-t40", "n01440764", "tench"),
        ("facets-t2-sun397", "/c/church/indoor", "church/indoor"),
        ("cocomagenet", "wine glass", "wine glass"),
    ],
)
def test_classes_are_named_as_their_source_names_them(table, class_id, class_name):
    assert {item.class_id: item.class_name for item in decisions.load_decisions(table)}[class_id] == class_name


def test_clutter_is_removed_by_a_rule_of_its_own():
    clutter = decisions.load_decisions("caltech256")[-1]
    assert (clutter.class_id, clutter.decision, clutter.rule) == ("257.clutter", "remove", "no_object")


def test_an_unknown_table_gets_a_suggestion():
    with stops(TaxonomyError, "food101"):
        decisions.load_decisions("food")


def test_reading_tables_loads_no_wordnet():
    code = (
        "import sys, taxonomy.decisions as d; from taxonomy.rules import facets as f; d.load_decisions('imagenet'); "
        "f.oodness(); f.grades('sun397'); print('numpy' in sys.modules)"
    )
    repository = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
