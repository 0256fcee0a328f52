"""The classes of OpenOOD's and ImageNet-OOD's lists, and what is known of their overlap with ImageNet-1k."""

from collections import Counter

import pytest

from taxonomy import lists, overlaps, tables
from taxonomy.decisions import load
from taxonomy.explain import explain
from tests.published_lists import needs_lists, published


def kept(table):
    return [row.class_id for row in load(table) if row.decision == "keep"]


@needs_lists
def test_the_classes_are_those_of_the_published_lists():
    assert kept("ssb-hard") == sorted({path.split("/")[0] for path in published("ssb_hard")})
    assert kept("imagenet-ood") == sorted({path.split("/")[0] for path in published("imagenet_ood")})
    assert kept("openood-imagenet200") == sorted({path.split("/")[0] for path in published("imagenet_r")})
    of_textures = Counter(path.split("/")[0] for path in published("textures"))
    assert of_textures == dict.fromkeys(kept("openood-textures"), 120)  # DTD has 120 of each


# Issues, as counted from WordNet's hypernyms alone in tests/taxonomy/test_lists.py: classes and images.
KINDS = {
    "ssb_hard": {"descendant": (160, 8_000), "ancestor": (32, 1_600)},
    "imagenet_ood": {"descendant": (1, 50), "ancestor": (2, 100)},
}


@pytest.mark.parametrize("name", KINDS)
def test_the_table_of_overlaps_says_of_every_kin_which_kind_it_is(name):
    closest = overlaps.closest("broad", "imagenet21k", [row.wnid for row in tables.imagenet1k()])
    images = Counter(lists.load(name).values())
    found = Counter(closest[wnid].kind for wnid in images if wnid in closest)
    assert found == {kind: classes for kind, (classes, _) in KINDS[name].items()}
    rows = Counter(dict.fromkeys(found, 0))
    for wnid, of_class in images.items():
        if wnid in closest:
            rows[closest[wnid].kind] += of_class
    assert rows == {kind: of_kind for kind, (_, of_kind) in KINDS[name].items()}


# The issue's own examples: blue jay from jay, and rattlesnake and goat, which stand above known classes.
@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        ("blue jay", "overlap   descendant, jay (n01580077) (WordNet): blue jay (n01580870)"),
        ("rattlesnake", "overlap   ancestor, diamondback (n01755581) (WordNet): diamondback (n01755581)"),
        ("goat", "overlap   ancestor, ibex (n02417914) (WordNet): ibex (n02417914) > "),
    ],
)
def test_explain_says_how_a_class_of_ssb_hard_is_kin_to_a_known_one(wanted, line):
    text = explain("ssb-hard", wanted)
    assert line in text
    assert "SSB-hard's list has 50 of its images." in text


def test_explain_says_why_a_texture_is_left_out():
    text = explain("openood-textures", "bubbly")
    assert text.startswith("openood-textures bubbly: remove\n")
    assert "overlap   scene holds object, bubble (n09229709) (by hand)" in text
