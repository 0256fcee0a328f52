import pytest

from builders.plan.completeness import shortfalls
from builders.sources.base import Stray
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.published import listed, published, touched
from tests.builders.trees import opened, refusal, tree, write_tar

GOLDFISH = "n01443537"


@published
def test_ids_and_counts_are_openoods(tmp_path):
    labels = listed("imagenet_test_imagenet_r")
    touched(tmp_path / "images_largescale" / "imagenet_r", labels)
    index = opened("imagenet_r", tmp_path)
    wnids = [row.wnid for row in tables.imagenet1k()]
    classes = dict(zip(*(index.table[name].to_pylist() for name in ("source_id", "class_id")), strict=True))
    assert classes == {name: wnids[label] for name, label in labels.items()}
    # "renditions of 200 ImageNet classes resulting in 30,000 images" (the owners' README).
    assert index.num_rows == SOURCES["imagenet_r"].expected()["images"].total == 30_000
    assert len(SOURCES["imagenet_r"].classes()) == 200
    assert shortfalls(index, ("images",), list(SOURCES["imagenet_r"].classes())) == []


def test_the_readme_in_the_archive_is_a_stray_of_no_image(tmp_path):
    write_tar(
        tmp_path / "imagenet-r.tar", {"imagenet-r/README.txt": b"", f"imagenet-r/{GOLDFISH}/toy_12.jpg": b"fish"}
    )
    (piece,) = opened("imagenet_r", tmp_path).pieces
    assert piece.table["source_id"].to_pylist() == [f"{GOLDFISH}/toy_12.jpg"]
    assert piece.how == "span"
    assert piece.strays == (Stray("imagenet-r.tar:imagenet-r/README.txt", "not named n01443537/art_0.jpg"),)


def test_files_of_other_names_and_classes_are_strays(tmp_path):
    # ImageNet-1k's tench is none of the 200.
    tree(tmp_path, dict.fromkeys((f"{GOLDFISH}/art_0.jpg", f"{GOLDFISH}/art_0.png", "n01440764/art_0.jpg"), ""))
    (piece,) = opened("imagenet_r", tmp_path).pieces
    assert piece.table["source_id"].to_pylist() == [f"{GOLDFISH}/art_0.jpg"]
    assert set(piece.strays) == {
        Stray(f"{GOLDFISH}/art_0.png", "not named <rendition>_<number>.jpg"),
        Stray("n01440764", "not a class folder"),
    }


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({f"train/{GOLDFISH}/{GOLDFISH}_10026.JPEG": ""}, "holds no image of its class"),  # ImageNet-1k
        ({"imagenet-r.tar": "no archive"}, "is not a whole, uncompressed tar"),
        ({"images/a.jpg": ""}, "the partition images (30,000 images) is not in"),
    ],
)
def test_copies_of_something_else(tmp_path, files, words):
    assert words in refusal("imagenet_r", tree(tmp_path, files))
