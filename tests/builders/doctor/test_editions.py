"""Editions of ImageNet and repackaged copies, told by names and by images that everybody knows."""

import io

import pytest
from PIL import Image

import unknown_detection as ud
from builders.commands.doctor import main
from builders.doctor.editions import names_say
from tests.builders.trees import linked, tree


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


def test_kaggles_layout_is_a_note(tmp_path):
    tree(tmp_path, {"ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG": b""})
    assert names_say(tmp_path, "imagenet") == ([], ["laid out as in Kaggle's competition"])


def test_images_that_tfds_saved_again_are_told(demo, tmp_path):
    """Of `n01739381_1309` everybody knows that it has four channels in the owner's archive."""
    root = linked(demo["imagenet"], tmp_path / "copy")
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
