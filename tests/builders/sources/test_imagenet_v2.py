import pytest

from builders.plan.completeness import shortfalls
from builders.sources.base import Stray
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders.published import listed, published, touched
from tests.builders.trees import opened, refusal, tree, write_tar

NAMES = tuple(f"{number:040x}.jpeg" for number in range(10))


@published
def test_ids_and_classes_are_openoods_and_other_sets_of_the_owners_are_refused(tmp_path):
    labels = listed("imagenet_test_imagenet_v2")
    touched(tmp_path / "images_largescale" / "imagenet_v2", labels)
    index = opened("imagenet_v2", tmp_path)
    wnids = [row.wnid for row in tables.imagenet1k()]
    classes = dict(zip(*(index.table[name].to_pylist() for name in ("source_id", "class_id")), strict=True))
    assert classes == {name: wnids[label] for name, label in labels.items()}
    # "each of the three test sets ... contains 10 images per class" (the owners' README): 10,000 images.
    assert index.num_rows == SOURCES["imagenet_v2"].expected()["images"].total == 10_000
    assert shortfalls(index, ("images",), wnids) == []
    first = tmp_path / "images_largescale" / "imagenet_v2" / next(iter(labels))
    first.rename(first.with_name(NAMES[0]))
    message = refusal("imagenet_v2", tmp_path)
    assert "the 10,000 images in" in message
    assert "are not those of the matched-frequency set as OpenOOD lists them" in message


def test_folders_are_class_indices_and_not_places_in_a_listing(tmp_path):
    # "the directory `100 (str)` is labelled with `2 (int)` class" (the owners' issue 10).
    tree(tmp_path, {f"{folder}/{NAMES[0]}": "" for folder in ("0", "1", "10", "100", "1000", "007")})
    found = {row["source_id"]: row["class_id"] for row in opened("imagenet_v2", tmp_path).table.to_pylist()}
    wnids = [row.wnid for row in tables.imagenet1k()]
    assert found == {f"{index}/{NAMES[0]}": wnids[index] for index in (0, 1, 10, 100)}


@pytest.mark.parametrize("name", ["imagenetv2-matched-frequency.tar.gz", "imagenetv2-matched-frequency.tar"])
def test_the_owners_archive_is_not_compressed_whatever_it_is_called(tmp_path, name):
    inside = f"imagenetv2-matched-frequency-format-val/7/{NAMES[1]}"
    write_tar(tmp_path / "x.tar", {inside: b"image"})
    (tmp_path / "x.tar").rename(tmp_path / name)
    (row,) = opened("imagenet_v2", tmp_path).table.to_pylist()
    assert (row["how"], row["source_id"], row["size"]) == ("span", f"7/{NAMES[1]}", 5)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        # The archive of December 2020 (modestyachts/ImageNetV2, issue 6).
        (
            {"imagenetv2-matched-frequency-format-val/n02865351/6.jpeg": ""},
            "the partition images (10,000 images) is not",
        ),
        ({"0/6.jpeg": ""}, "holds no image of its class: 6.jpeg is not named <40 hexadecimal digits>.jpeg"),
        ({"imagenetv2-matched-frequency.tar.gz": "no archive"}, "cannot be read as a tar.gz"),
    ],
)
def test_copies_of_something_else(tmp_path, files, words):
    assert words in refusal("imagenet_v2", tree(tmp_path, files))


def test_files_of_other_names_are_strays(tmp_path):
    tree(tmp_path, dict.fromkeys((f"3/{NAMES[0]}", "3/6.jpeg", f"3/{NAMES[1]}".upper()), ""))
    (piece,) = opened("imagenet_v2", tmp_path).pieces
    assert set(piece.strays) == {
        Stray(name, "not named <40 hexadecimal digits>.jpeg") for name in ("3/6.jpeg", f"3/{NAMES[1]}".upper())
    }
