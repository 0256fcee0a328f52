import csv
from pathlib import Path

import pytest

from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.trees import tree

REFERENCE = Path(__file__).parents[5] / "shared" / "reference" / "published"
published = pytest.mark.skipif(not REFERENCE.is_dir(), reason="no published lists beside this checkout")

# Of NINCO's table: the first name, and one of the ten images on which its authors saw an ImageNet-1k object.
FIRST, GRASS = "000309dd0c724a5104df8e716b9008a0.jpg", "1d6895c461e58f4924d45fb25fe6cea9.jpg"


def rows(root):
    table = open_source(SOURCES["inaturalist"], root, ("images",)).table
    return {row["source_id"]: row for row in table.to_pylist()}


def test_species_are_looked_up_by_name(tmp_path):
    row_of = rows(tree(tmp_path, {f"images/{name}": "" for name in (FIRST, GRASS)}))
    assert {name: row["class_id"] for name, row in row_of.items()} == {
        FIRST: "Toxicodendron diversilobum",
        GRASS: "Sorghastrum nutans",
    }
    assert (row_of[GRASS]["known_object_seen"], row_of[GRASS]["examined"]) == (True, True)
    assert (row_of[FIRST]["known_object_seen"], row_of[FIRST]["examined"]) == (False, False)


def test_the_subset_has_the_counts_of_its_paper():
    # Huang and Li (2021), section 4.1: 10,000 images of 110 plant classes.
    size = SOURCES["inaturalist"].expected()["images"]
    assert (size.total, len(size.per_class)) == (10_000, 110)


@published
def test_species_are_those_of_the_published_table():
    with (REFERENCE / "inaturalist_mos_labels.csv").open(encoding="utf-8", newline="") as file:
        listed = {row["image_location"]: row["species"] for row in csv.DictReader(file)}
    assert tables.inaturalist() == listed


@published
@pytest.mark.parametrize(
    ("key", "name", "overlapping"),
    [
        ("inaturalist", "ninco_OOD_iNaturalist_MOS", 10),
        ("imagenet_o", "ninco_imagenet_o", 78),
        ("openimage_o", "ninco_openimage_o", 19),
    ],
)
def test_examined_images_are_those_of_the_published_tables(key, name, overlapping):
    with (REFERENCE / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        listed = [(row["image_location"], row["decision"]) for row in csv.DictReader(file)]
    examined = {image.source_id: image.decision for image in tables.examined_images() if image.source == key}
    assert len(examined) == len(listed) == 400
    for path, decision in listed:
        parts = path.split("/")
        assert examined["/".join(parts[-2:]) if key == "imagenet_o" else parts[-1]] == decision
    assert list(examined.values()).count("i") == overlapping
