"""Editions of ImageNet and repackaged copies, told by names and by images that everybody knows."""

import io
import os

import pytest
from PIL import Image

import unknown_detection as ud
from builders.commands.doctor import main
from builders.doctor.editions import names_say
from builders.sources.registry import SOURCES
from tests.builders.layouts import imagenet_kaggle
from tests.builders.trees import linked, replaced, tree


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("val/ILSVRC2010_val_00000001.JPEG", "ILSVRC 2010"),
        ("train_blurred/n01440764/n01440764_10026.jpg", "blurred faces"),
        ("imagenet2012-train.tfrecord-00000-of-01024", "TFDS's records"),
        ("imagenet1k-train-0000.tar", "webdataset shards"),
        ("train-000000.tar", "webdataset shards"),
    ],
)
def test_other_editions_are_told_by_names(tmp_path, name, words):
    tree(tmp_path, {name: b""})
    (edition,), _ = names_say(tmp_path, "")
    assert words in edition


def test_another_edition_is_not_the_dataset(tmp_path):
    data = io.BytesIO()
    Image.new("RGB", (40, 30)).save(data, "JPEG")
    tree(tmp_path, {f"val/ILSVRC2010_val_{number:08d}.JPEG": data.getvalue() for number in range(3)})
    found = ud.doctor(tmp_path)
    assert found["sentence"].startswith("not the dataset: ILSVRC 2010")
    assert not found["whole"]


def test_classes_of_another_edition_are_told(demo, tmp_path):
    root = linked(demo["imagenet"], tmp_path / "copy")
    own = next((root / "train" / "n01440764").iterdir()).read_bytes()
    tree(root, {f"train/n9{number:07d}/n9{number:07d}_1.JPEG": own for number in range(100)})
    (edition,), _ = names_say(root, "imagenet")
    assert "100 of 1,100 class folders are none of ILSVRC2012's" in edition


def cut(path):
    replaced(path, lambda data: data[: len(data) // 2])


def of_2010(demo, root):
    """Validation images of ILSVRC 2010, of which one is cut."""
    own = next((demo["imagenet"] / "train" / "n01440764").glob("*.JPEG")).read_bytes()
    tree(root, {f"val/ILSVRC2010_val_{number:08d}.JPEG": own + bytes(number) for number in range(3)})
    cut(root / "val" / "ILSVRC2010_val_00000001.JPEG")
    return "ILSVRC 2010", {"truncated": ["val/ILSVRC2010_val_00000001.JPEG"]}


def blurred(demo, root):
    """A folder of training images that is called as those with blurred faces, with an image of another class."""
    linked(demo["imagenet"] / "train", root / "train")
    tree(root, {"train_blurred/n01440764/n01440764_1.jpg": b""})
    image = min((root / "train" / "n01440764").glob("*.JPEG"))
    image.rename(root / "train" / "n01443537" / image.name)
    return "blurred faces", {"wrong class": [f"train/n01443537/{image.name}"]}


def of_fall_2011(demo, root):
    """Classes of the full ImageNet beside those of ILSVRC2012, and an image that is a page."""
    linked(demo["imagenet"], root)
    own = next((root / "train" / "n01440764").glob("*.JPEG")).read_bytes()
    tree(root, {f"train/n9{number:07d}/n9{number:07d}_1.JPEG": own for number in range(100)})
    image = min((root / "train" / "n01440764").glob("*.JPEG"))
    replaced(image, lambda _: b"<html>404</html>")
    return "another edition of ImageNet", {"unreadable": [f"imagenet/train/n01440764/{image.name}"]}


@pytest.mark.parametrize("plant", [of_2010, blurred, of_fall_2011])
def test_an_edition_with_a_fault_is_named_with_the_fault(demo, tmp_path, plant):
    words, faults = plant(demo, tmp_path / "copy")
    found = ud.doctor(tmp_path / "copy")
    assert found["sentence"].startswith("not the dataset: ") and words in found["sentence"]
    for kind, ids in faults.items():
        assert [each["id"] for each in found["differences"] if each["kind"] == kind and each["id"]] == ids
        assert kind in found["sentence"].partition("; ")[2]


@pytest.mark.parametrize("fault", [False, True])
def test_classes_with_more_images_than_in_ilsvrc2012_are_told(demo, tmp_path, fault):
    """Classes have 732 to 1,300 images there (Russakovsky et al., 2015, table 2), and the smallest one 740 here."""
    name, more = "n02089078", 740
    root = tmp_path / "copy"
    own = next((demo["imagenet"] / "train" / name).glob("*.JPEG"))
    (root / "train" / name).mkdir(parents=True)
    for number in range(more):
        os.link(own, root / "train" / name / f"{name}_{number}.JPEG")
    if fault:
        cut(root / "train" / name / f"{name}_7.JPEG")
    found = ud.doctor(root, quick=True)
    assert found["sentence"].startswith("not the dataset: the full ImageNet of fall 2011: 1 of 1 classes ")
    assert f"more images than in ILSVRC2012, for instance {name} {more} and not 732" in found["sentence"]
    assert found["kinds"]["extra"] == more - 732, "each image once"
    assert [each["id"] for each in found["differences"] if each["kind"] == "truncated"] == (
        [f"imagenet/train/{name}/{name}_7.JPEG"] if fault else []
    )
    assert not found["whole"]


def test_kaggles_layout_is_a_note(tmp_path):
    tree(tmp_path, {"ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG": b""})
    assert names_say(tmp_path, "imagenet") == ([], ["laid out as in Kaggle's competition"])


def test_images_that_tfds_saved_again_are_told(demo, tmp_path):
    """Of `n01739381_1309` everybody knows that it has four channels in the owner's archive."""
    root = tmp_path / "copy"
    linked(demo["imagenet"] / "train" / "n01739381", root / "train" / "n01739381")
    data = {mode: io.BytesIO() for mode in ("RGB", "CMYK")}
    for mode, file in data.items():
        Image.new(mode, (40, 30)).save(file, "JPEG")
    name = "train/n01739381/n01739381_1309.JPEG"
    for mode, kinds in (("RGB", {"re-encoded"}), ("CMYK", set())):
        (root / name).unlink(missing_ok=True)
        tree(root, {name: data[mode].getvalue()})
        found = ud.doctor(root)
        assert {each["kind"] for each in found["differences"] if "1309" in each["id"]} == kinds


def test_records_without_images_are_named_in_the_refusal(tmp_path, capsys):
    tree(tmp_path, {"imagenet2012-train.tfrecord-00000-of-01024": b""})
    assert main([str(tmp_path)]) == 2
    assert "TFDS's records" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["tiny_imagenet", "imagenet"])
def test_the_owners_images_without_classes_are_not_extra(demo, tmp_path, key):
    """In Tiny ImageNet's archive, and in Kaggle's layout of ImageNet, lies a folder of test images of no partition."""
    own = demo["dtd"] / "images/blotchy/blotchy_0160.jpg"
    if key == "imagenet":
        root = imagenet_kaggle(demo[key], tmp_path / "copy")
        tree(root, {"ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_00000001.JPEG": own.read_bytes()})
    else:
        root = linked(demo[key], tmp_path / "copy")
        tree(root, {"tiny-imagenet-200/test/images/test_0.JPEG": own.read_bytes()})
    assert "extra" not in ud.doctor(root, quick=True)["kinds"]


def test_cifar_100_as_image_files_is_told_by_its_classes(tmp_path):
    """cyizhuo/CIFAR-100-dataset has all 60,000 images so: no file name says an image's place in the owner's file."""
    data = io.BytesIO()
    Image.new("RGB", (32, 32)).save(data, "PNG")
    names = list(SOURCES["cifar100"].classes().values())
    tree(tmp_path, {f"train/{name}/{name}_s_000001.png": data.getvalue() for name in names})
    found = ud.doctor(tmp_path)
    assert found["sentence"].startswith("not as the owner's: CIFAR-100: ")
    assert "--" not in found["sentence"]
    assert all("CIFAR-100" in note for note in found["notes"] if "not named" in note or "Give" in note)


def test_photographs_of_imagenets_classes_under_other_names_are_told(tmp_path):
    """EliSchwartz/imagenet-sample-images has one of each class so."""
    data = io.BytesIO()
    Image.new("RGB", (40, 30)).save(data, "JPEG")
    tree(tmp_path, {f"{name}.JPEG": data.getvalue() for name in ("n01440764_tench", "n01443537_goldfish")})
    found = ud.doctor(tmp_path)
    assert found["sentence"].startswith("unknown: 2 images of no dataset")
    assert any("2 files are called by classes of ImageNet-1k, such as n01" in note for note in found["notes"])


def test_a_damaged_archive_alone_is_named(tmp_path, capsys):
    tree(tmp_path, {"food-101.tar.gz": b"not an archive"})
    assert main([str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "food-101.tar.gz" in line
