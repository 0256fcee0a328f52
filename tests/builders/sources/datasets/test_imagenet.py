"""Names with their class, and archives and Parquet files that are not what they are called.

The layouts that are accepted stand in `test_layouts.py`, most sentences in `test_errors.py`.
"""

import tarfile

import pytest

from builders.sources.opening import open_source
from builders.sources.registry import SOURCES
from taxonomy import tables
from tests.builders import layouts
from tests.builders.trees import add, refusal, tree, write_parquet
from tests.sentences import assert_sentence

TENCH, GOLDFISH = "n01440764", "n01443537"
WNIDS = [row.wnid for row in tables.imagenet1k()]
TRAIN, VAL = f"{TENCH}_10026_{TENCH}.JPEG", f"ILSVRC2012_val_00000293_{TENCH}.JPEG"


def rows(root, partition):
    """What a partition was found to be: (class, id, file)."""
    table = open_source(SOURCES["imagenet"], root, (partition,)).table
    return [tuple(row[name] for name in ("class_id", "source_id", "file")) for row in table.to_pylist()]


def test_the_class_in_a_name_is_no_part_of_the_id(tmp_path):
    tree(tmp_path, {f"train/{TENCH}/{TRAIN}": "", f"train/{TENCH}/{TENCH}_2.JPEG": "", f"val/{VAL}": ""})
    assert rows(tmp_path, "train") == [
        (TENCH, f"train/{TENCH}/{TENCH}_10026.JPEG", f"train/{TENCH}/{TRAIN}"),
        (TENCH, f"train/{TENCH}/{TENCH}_2.JPEG", f"train/{TENCH}/{TENCH}_2.JPEG"),
    ]
    assert rows(tmp_path, "val") == [(TENCH, "val/ILSVRC2012_val_00000293.JPEG", f"val/{VAL}")]


def test_flat_validation_images_of_both_kinds(tmp_path):
    tree(tmp_path, {f"val/{VAL}": "", "val/ILSVRC2012_val_00000001.JPEG": ""})
    message = refusal("imagenet", tmp_path, "val")
    assert_sentence(message, "ILSVRC2012_devkit_t12/", "ILSVRC2012_devkit_t12.tar.gz", "LOC_val_solution.csv")
    tree(tmp_path, {"LOC_val_solution.csv": f"ImageId,PredictionString\nILSVRC2012_val_00000001,{GOLDFISH} 1\n"})
    assert [row[:2] for row in rows(tmp_path, "val")] == [
        (GOLDFISH, "val/ILSVRC2012_val_00000001.JPEG"),
        (TENCH, "val/ILSVRC2012_val_00000293.JPEG"),
    ]


@pytest.mark.parametrize(
    ("partition", "path", "words"),
    [
        ("train", f"train/{TENCH}/{GOLDFISH}_7.JPEG", f"{GOLDFISH}_7.JPEG is not named {TENCH}_<number>.JPEG"),
        ("train", "train/n00007846/n00007846_1.JPEG", "which holds train. Accepted layouts are train/<wnid>/"),
        ("val", "val/ILSVRC2010_val_00000001.JPEG", "which holds val. Accepted layouts are val/<wnid>/"),
        ("val", f"val/{TENCH}/ILSVRC2010_val_00000001.JPEG", "1.JPEG is not named ILSVRC2012_val_<8 digits>.JPEG"),
        ("train", f"train/{GOLDFISH}/{TRAIN}", f"{TRAIN} is not named {GOLDFISH}_<number>.JPEG"),
        ("train", f"train/{TENCH}_1_{GOLDFISH}.JPEG", "Accepted layouts are"),
        ("val", f"val/{GOLDFISH}/{VAL}", f"{VAL} is not named ILSVRC2012_val"),
        # The edition with blurred faces and resized copies end so.
        ("train", f"train/{TENCH}/{TENCH}_1.jpg", f"holds no image of its class: {TENCH}_1.jpg is not named"),
        ("val", "val/ILSVRC2012_val_00000293.jpg", "Accepted layouts are"),
    ],
)
def test_names_that_contradict_their_place(tmp_path, partition, path, words):
    assert words in refusal("imagenet", tree(tmp_path, {path: ""}), partition)


@pytest.mark.parametrize("other", [f"val/{TENCH}/{VAL}", f"val/{GOLDFISH}/ILSVRC2012_val_00000293.JPEG"])
def test_one_image_twice(tmp_path, other):
    """With and without its class in its name, and in two classes."""
    first = f"val/{TENCH}/ILSVRC2012_val_00000293.JPEG"
    message = refusal("imagenet", tree(tmp_path, {first: "", other: ""}), "val")
    assert_sentence(message, "val/ILSVRC2012_val_00000293.JPEG", first, other)


def write_train_tar(root, names, wnid=TENCH):
    """The original archive with one class."""
    inner = tree(root / "x", {f"{wnid}/{name}": b"image" for name in names})
    with tarfile.open(root / "ILSVRC2012_img_train.tar", "w") as archive:
        add(archive, f"{wnid}.tar", layouts.class_tar(inner / wnid))
    return root


def test_the_class_in_names_inside_the_archive(tmp_path):
    assert [row[:2] for row in rows(write_train_tar(tmp_path, [TRAIN]), "train")] == [
        (TENCH, f"train/{TENCH}/{TENCH}_10026.JPEG")
    ]


@pytest.mark.parametrize(
    ("wnid", "name", "words"),
    [
        (TENCH, "a.JPEG", f"a.JPEG is not named {TENCH}_<number>.JPEG"),
        (TENCH, f"{GOLDFISH}_1.JPEG", f"{GOLDFISH}_1.JPEG is not named {TENCH}_<number>.JPEG"),
        ("n00007846", "n00007846_1.JPEG", "has no tar of a class. Give an ILSVRC2012 copy"),
    ],
)
def test_the_archive_of_a_class_without_its_images(tmp_path, wnid, name, words):
    assert words in refusal("imagenet", write_train_tar(tmp_path, [name], wnid), "train")


def test_strays_beside_the_archives_of_classes(tmp_path):
    source = write_train_tar(tmp_path / "whole", [TRAIN])
    with tarfile.open(source / "ILSVRC2012_img_train.tar") as archive:
        archive.extractall(tmp_path / "copy" / "train", filter="data")
    tree(tmp_path / "copy", {"train/notes.txt": ""})
    index = open_source(SOURCES["imagenet"], tmp_path / "copy", ("train",))
    assert index.layouts == {"train": "class archives in train"}
    assert [(stray.path, stray.reason) for partition in index.partitions for stray in partition.strays] == [
        ("train/notes.txt", "not a tar of one class")
    ]


def parquet(root, split, names):
    """A mirror's file with images of the first class."""
    write_parquet(root / "data" / f"{split}-00000-of-00001.parquet", [(name, 0, b"") for name in names], WNIDS)
    return root


def test_files_called_train_that_hold_validation_images(tmp_path):
    parquet(tmp_path, "train", [VAL])
    index = open_source(SOURCES["imagenet"], tmp_path, ("val",))
    assert index.layouts == {"val": "Parquet files data/train-*.parquet, which hold validation images"}
    assert index.table["source_id"].to_pylist() == ["val/ILSVRC2012_val_00000293.JPEG"]
    message = refusal("imagenet", tmp_path, "train")
    assert_sentence(message, VAL, "<wnid>_<number>.JPEG", "ILSVRC/imagenet-1k")


@pytest.mark.parametrize(
    ("split", "names", "words"),
    [
        ("validation", [TRAIN], f"the file name {TRAIN} is not like ILSVRC2012_val"),
        ("validation", [VAL, "ILSVRC2012_test_00000001.JPEG"], "the file name ILSVRC2012_test_00000001.JPEG is not"),
        ("train", [VAL, TRAIN], f"the file name {TRAIN} is not like ILSVRC2012_val"),
        ("train", [TRAIN, VAL], "is not in"),
        ("validation", [None, None], "holds images without file names"),
        ("validation", ["ILSVRC2012_val_00000293.JPEG"], "neither ILSVRC2012_devkit_t12/"),
    ],
)
def test_files_whose_names_inside_do_not_fit_the_partition(tmp_path, split, names, words):
    assert words in refusal("imagenet", parquet(tmp_path, split, names), "val")


def test_a_mirror_with_a_class_that_nobody_knows(tmp_path):
    unknown = "n99999999_1_n99999999.JPEG"
    message = refusal("imagenet", parquet(tmp_path, "train", [TRAIN, unknown]), "train")
    assert_sentence(message, unknown, "1,000")
