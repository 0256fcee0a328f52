"""The COCO categories that BROAD shares with ImageNet, against table 3 of the paper and the authors' lists."""

import csv
import json
from pathlib import Path

import pytest

from taxonomy import decisions, tables

SHARED = Path(__file__).parents[3] / ".." / "shared" / "reference"
needs_reference = pytest.mark.skipif(not SHARED.is_dir(), reason="the reference lists are not on this machine")

# Table 3 of the paper.
TABLE_3 = {
    "zebra": "n02391049",
    "backpack": "n02769748",
    "umbrella": "n04507155",
    "skis": "n04228054",
    "kite": "n01608432",
    "cup": "n07930864",
    "banana": "n07753592",
    "orange": "n07747607",
    "broccoli": "n07714990",
    "pizza": "n07873807",
    "laptop": "n03642806",
    "mouse": "n03793489",
    "remote": "n04074963",
    "microwave": "n03761084",
    "toaster": "n04442312",
    "refrigerator": "n04070727",
    "vase": "n04522168",
}


def test_the_shared_categories_are_those_of_the_paper():
    matched = {
        item.class_id: item.matched for item in decisions.load_decisions("cocomagenet") if item.decision == "shared"
    }
    assert matched == TABLE_3


def test_names_of_several_words_are_left_out_with_a_reason_of_their_own():
    left = {item.class_id for item in decisions.load_decisions("cocomagenet") if item.rule == "category_words"}
    assert left == {"traffic light", "parking meter", "hot dog", "dining table", "teddy bear", "hair drier"}


def test_pairs_that_agree_in_spelling_only_say_so():
    rows = decisions.load_decisions("cocomagenet")
    spelled = {item.class_id for item in rows if "by spelling only" in item.evidence}
    assert spelled == {"kite", "cup"}


@needs_reference
def test_the_published_lists_are_the_authors():
    published = SHARED / "published"
    several = json.loads((published / "CoComageNet.json").read_text())["-1"]
    by_label = json.loads((published / "CoComageNet-mono.json").read_text())
    wnids = [item.wnid for item in tables.imagenet1k()]
    alone = {image: wnids[int(label)] for label, images in by_label.items() for image in images}
    ours = tables.cocomagenet_images()
    assert {image.image_id for image in ours if image.split == "cocomagenet"} == set(several)
    mono = {image.image_id: TABLE_3[image.category] for image in ours if image.split == "cocomagenet_mono"}
    assert mono == alone


@needs_reference
def test_categories_are_cocos():
    with (SHARED / "coco80.csv").open(encoding="utf-8", newline="") as file:
        assert {int(row["id"]): row["name"] for row in csv.DictReader(file)} == {
            item.id: item.name for item in tables.coco80()
        }
