import pytest

from builders.plan.completeness import shortfalls
from builders.sources.base import Stray, open_source
from builders.sources.registry import SOURCES
from tests.builders.published import listed, published, touched
from tests.builders.trees import opened, refusal, tree, write_tar

CARACAL = "Caracal caracal caracal"


@published
def test_ids_are_openoods_and_the_owners_counts_are_its_list(tmp_path):
    names = listed("imagenet_test_ninco")
    touched(tmp_path / "images_largescale" / "ninco", names)
    index = opened("ninco", tmp_path)
    assert sorted(index.table["source_id"].to_pylist()) == sorted(names)
    # "The NINCO dataset consists of 64 OOD classes with a total of 5879 samples" (the owners' README).
    assert (index.num_rows, len(index.pieces[0].images_by_class)) == (5_879, 64)
    assert index.pieces[0].images_by_class == SOURCES["ninco"].expected()["images"].per_class
    assert shortfalls(index, ("images",), list(SOURCES["ninco"].classes())) == []
    assert not index.pieces[0].strays


def test_spaces_of_the_owners_names_are_underscores_in_ids_and_classes(tmp_path):
    # A line of the owners' data/NINCO_OOD_classes.csv.
    name = f"{CARACAL}/{CARACAL}_001_001-11713603.png"
    (row,) = opened("ninco", tree(tmp_path, {f"NINCO_OOD_classes/{name}": ""})).table.to_pylist()
    assert row["class_id"] == "Caracal_caracal_caracal"
    assert row["source_id"] == "Caracal_caracal_caracal/Caracal_caracal_caracal_001_001-11713603.png"
    assert row["file"] == f"NINCO_OOD_classes/{name}"
    assert SOURCES["ninco"].classes()[row["class_id"]] == "caracal"


def test_what_else_the_archive_has_is_not_looked_at(tmp_path):
    image = "NINCO/NINCO_OOD_classes/waffles/waffles_000_903753.jpg"
    others = (
        "NINCO/NINCO_OOD_unit_tests/black/black_000.png",
        "NINCO/NINCO_popular_datasets_subsamples/SSB_hard/a.jpg",
    )
    write_tar(tmp_path / "NINCO_all.tar.gz", dict.fromkeys((image, *others), b""))
    (piece,) = opened("ninco", tmp_path).pieces
    assert piece.table["source_id"].to_pylist() == ["waffles/waffles_000_903753.jpg"]
    assert not piece.strays


def test_files_of_other_names_are_strays(tmp_path):
    wanted = "waffles_<3 digits>_<name>.jpg (or .jpeg, .png, .gif)"
    strays = ("waffles/donuts_000_1.jpg", "waffles/waffles_1.jpg", "waffles/waffles_001_2.webp")
    tree(tmp_path, dict.fromkeys(("waffles/waffles_000_1.jpg", *strays), ""))
    (piece,) = open_source(SOURCES["ninco"], tmp_path, ("images",)).pieces
    assert set(piece.strays) == {Stray(name, f"not named {wanted}") for name in strays}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"windsor_chair/image_0001.jpg": ""}, "holds no image of its class"),  # a folder of Caltech-101
        ({"images/tench/tench_000_1.jpg": ""}, "the partition images (5,879 images) is not in"),
        ({"NINCO_all.tar.gz": "no archive"}, "cannot be read as a tar.gz"),
    ],
)
def test_copies_of_something_else(tmp_path, files, words):
    assert words in refusal("ninco", tree(tmp_path, files))
