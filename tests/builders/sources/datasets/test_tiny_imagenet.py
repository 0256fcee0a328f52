"""Copies of Tiny ImageNet that were altered or sorted, and its validation images' classes."""

import collections

import pytest

from builders.sources.datasets.tiny_imagenet import validation_classes
from builders.sources.registry import SOURCES
from tests.builders.layouts import TINY, tiny_imagenet_archive
from tests.builders.trees import linked, opened, refusal, replaced, tree


@pytest.fixture
def copy(demo, tmp_path):
    return linked(demo["tiny_imagenet"], tmp_path / "copy")


def test_validation_images_have_the_classes_of_the_owners_list():
    """Lines 1, 2 and 3 of the genuine list, and 50 images of each class."""
    classes = validation_classes()
    assert list(classes)[:3] == ["val/val_0.JPEG", "val/val_1.JPEG", "val/val_2.JPEG"]
    assert [*classes.values()][:3] == ["n03444034", "n04067472", "n04070727"]
    assert list(classes) == [f"val/val_{number}.JPEG" for number in range(10_000)]
    assert set(collections.Counter(classes.values()).values()) == {50}
    assert set(classes.values()) == set(SOURCES["tiny_imagenet"].classes())


def test_an_altered_copy_is_refused_by_its_list_and_its_own_classes_are_strays(copy):
    """As in rangeetpan/IMagenet: two classes more, and 100 validation images of one of them."""
    root = copy / TINY
    own = next((root / "train" / "n01443537" / "images").iterdir()).read_bytes()
    tree(root, {"train/n02480855/images/n02480855_0.JPEG": own, "val/images/val_10000.JPEG": own})
    replaced(root / "val" / "val_annotations.txt", lambda text: text + b"val_10000.JPEG\tn02480855\t10\t10\t38\t42\n")
    message = refusal("tiny_imagenet", copy, "val")
    assert message.startswith(
        f"Tiny ImageNet: {root}/val/val_annotations.txt gives val_10000.JPEG the class n02480855"
    )
    assert "the owner's list has no such image" in message
    assert message.endswith("Give a copy of Tiny ImageNet with --tiny_imagenet.")
    (root / "val" / "val_annotations.txt").unlink()
    train, val = opened("tiny_imagenet", copy).partitions
    assert [stray.path for stray in train.strays] == [f"{TINY}/train/n02480855"]
    assert [(stray.path, stray.reason) for stray in val.strays][1:] == [
        (f"{TINY}/val/images/val_10000.JPEG", "not named val_<0 to 9999>.JPEG")
    ]
    assert (train.table.num_rows, val.table.num_rows) == (400, 400)


def test_an_empty_line_of_the_list_is_no_image(copy):
    replaced(copy / TINY / "val" / "val_annotations.txt", lambda text: b"\n" + text + b"\r\n\n")
    assert opened("tiny_imagenet", copy).partitions[1].table.num_rows == 400


def test_a_list_that_moves_an_image_is_refused_in_the_zip_too(copy, tmp_path):
    replaced(copy / TINY / "val" / "val_annotations.txt", lambda text: text.replace(b"n01443537", b"n12267677"))
    root = tiny_imagenet_archive(copy, tmp_path / "packed")
    assert f"{TINY}.zip/val_annotations.txt gives" in refusal("tiny_imagenet", root, "val")


def test_an_image_in_the_folder_of_another_class_is_refused(copy):
    root = copy / TINY / "val"
    name = next(
        i for i, wnid in validation_classes().items() if (root / "images" / i[4:]).exists() and wnid != "n01443537"
    )
    (root / "n01443537").mkdir()
    (root / "images" / name[4:]).rename(root / "n01443537" / name[4:])
    message = refusal("tiny_imagenet", copy, "val")
    assert f"has {name[4:]} in the folder of the class n01443537" in message


def test_strays_are_not_the_owners_own_files(demo):
    train, val = opened("tiny_imagenet", demo["tiny_imagenet"]).partitions
    assert (train.strays, [stray.path for stray in val.strays]) == ((), [f"{TINY}/val/images/.DS_Store"])
