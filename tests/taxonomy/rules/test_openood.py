"""The classes of OpenOOD's and ImageNet-OOD's lists, and what is known of their overlap with ImageNet-1k."""

from collections import Counter

import pytest

from taxonomy import lists, overlaps, tables
from taxonomy.decisions import load_decisions
from taxonomy.explain import explain_class
from taxonomy.wordnet import nouns
from tests.published_lists import needs_lists, published


def kept_classes(table):
    return [row.class_id for row in load_decisions(table) if row.decision == "keep"]


@needs_lists
def test_the_classes_are_those_of_the_published_lists():
    assert kept_classes("ssb-hard") == sorted({path.split("/")[0] for path in published("ssb_hard")})
    assert kept_classes("imagenet-ood") == sorted({path.split("/")[0] for path in published("imagenet_ood")})
    assert kept_classes("openood-imagenet200") == sorted({path.split("/")[0] for path in published("imagenet_r")})
    of_textures = Counter(path.split("/")[0] for path in published("textures"))
    assert of_textures == dict.fromkeys(kept_classes("openood-textures"), 120)  # DTD has 120 of each


# Classes of a list, and their images, that are below a class of ImageNet-1k, and above one.
KIN = {"ssb_hard": ((160, 8_000), (32, 1_600)), "imagenet_ood": ((1, 50), (2, 100))}


@pytest.mark.parametrize("name", KIN)
def test_exactly_the_classes_below_and_above_a_known_one_are_kin(name):
    """By WordNet 3.0's hypernyms alone, without the rules of overlaps."""
    wordnet = nouns.load_wordnet()
    known = {wordnet.row(row.wnid) for row in tables.imagenet1k()}
    above = {ancestor for row in known for ancestor in wordnet.ancestors(row).tolist()}
    images = Counter(lists.load_list(name).values())
    rows = {wnid: wordnet.row(wnid) for wnid in images}
    assert not known & set(rows.values())
    below = [wnid for wnid, row in rows.items() if known & set(wordnet.ancestors(row).tolist())]
    over = [wnid for wnid, row in rows.items() if row in above]
    assert tuple((len(kin), sum(images[wnid] for wnid in kin)) for kin in (below, over)) == KIN[name]
    closest = overlaps.closest("broad", "imagenet21k", [row.wnid for row in tables.imagenet1k()])
    kinds = {wnid: closest[wnid].kind for wnid in images if wnid in closest}
    assert kinds == dict.fromkeys(over, "ancestor") | dict.fromkeys(below, "descendant")


# Blue jay is below jay; rattlesnake and goat are above known classes.
@pytest.mark.parametrize(
    ("table", "name", "lines"),
    [
        ("ssb-hard", "blue jay", ("overlap   descendant, jay (n01580077) (WordNet): blue jay (n01580870)",)),
        ("ssb-hard", "rattlesnake", ("overlap   ancestor, diamondback (n01755581) (WordNet): diamondback (n017",)),
        ("ssb-hard", "goat", ("ancestor, ibex (n02417914) (WordNet): ibex (n", "list has 50 of its images.")),
        ("openood-textures", "bubbly", ("bubbly: remove\n", "scene holds object, bubble (n09229709) (by hand)")),
    ],
)
def test_explain_says_how_a_class_is_kin_to_a_known_one(table, name, lines):
    text = explain_class(table, name)
    assert all(line in text for line in lines), text
