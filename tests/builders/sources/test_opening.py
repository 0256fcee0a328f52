"""Looking for a dataset at any nesting, and what is said where it is not there."""

import os
from pathlib import Path

import pytest

from builders.sources import opening
from builders.sources.opening import open_source, search_below
from builders.sources.readers import parquet_files
from builders.sources.registry import SOURCES
from tests.builders.trees import refusal, tree
from tests.sentences import assert_sentence

TENCH, GOLDFISH = "n01440764", "n01443537"
IMAGE = f"{TENCH}/{TENCH}_1.JPEG"


def train(root):
    """The files of the training images as they are found in a folder."""
    return open_source(SOURCES["imagenet"], root, ("train",)).table["file"].to_pylist()


@pytest.mark.parametrize("place", ["", "a/", "ILSVRC/Data/CLS-LOC/", "a/b/c/d/"])
def test_found_at_any_of_four_levels(tmp_path, place):
    assert train(tree(tmp_path, {f"{place}train/{IMAGE}": ""})) == [f"{place}train/{IMAGE}"]


def test_a_search_asks_the_system_for_little_in_each_folder(tmp_path, monkeypatch):
    """Some sixty layouts are tried in every folder of a copy: only links are resolved, and what is there is listed."""
    root = tree(tmp_path, {f"{number}/a.jpg": "" for number in range(20)})
    (root / "link").symlink_to(root / "0")
    resolved, listed = [], []
    resolve, listdir = Path.resolve, os.listdir
    monkeypatch.setattr(Path, "resolve", lambda path: resolved.append(path) or resolve(path))
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or listdir(path))
    assert search_below(root, lambda folder: parquet_files.split_files(folder, "train") or None) == ([], [])
    assert resolved == [root, root / "link"]
    assert len(listed) == 21


def test_a_fifth_level_is_not_searched(tmp_path):
    message = refusal("imagenet", tree(tmp_path, {f"a/b/c/d/e/train/{IMAGE}": ""}), "train")
    assert_sentence(message, tmp_path)


def test_the_given_folder_goes_before_those_below_it(tmp_path):
    files = {f"{place}train/{IMAGE}": "" for place in ("", "a/", "train/a/")}
    assert train(tree(tmp_path, files)) == [f"train/{IMAGE}"]


@pytest.mark.parametrize("second", ["b", "b/old"])
def test_two_places_are_refused_and_both_are_named(tmp_path, second):
    tree(tmp_path, {f"{place}/train/{IMAGE}": "" for place in ("a", second)})
    message = refusal("imagenet", tmp_path, "train")
    assert_sentence(message, tmp_path, "a/train", second, "--imagenet")


def test_partitions_may_lie_in_different_places(tmp_path):
    tree(tmp_path, {f"x/train/{IMAGE}": "", f"y/validation/{TENCH}/ILSVRC2012_val_00000001_{TENCH}.JPEG": ""})
    index = open_source(SOURCES["imagenet"], tmp_path, ("train", "val"))
    assert index.layouts == {"train": "class folders in x/train", "val": "class folders in y/validation"}


def test_no_link_leads_out_of_the_folder(tmp_path):
    root = tree(tmp_path / "root", {"readme": ""})
    (root / "imagenet").symlink_to(tree(tmp_path / "elsewhere", {f"train/{IMAGE}": ""}))
    (root / "up").symlink_to(tmp_path)
    message = refusal("imagenet", root, "train")
    assert_sentence(message)
    (root / "train").symlink_to(tmp_path / "elsewhere" / "train")  # what a layout names may be anywhere
    assert train(root) == [f"train/{IMAGE}"]


def test_links_within_the_folder_make_no_second_place_and_no_circle(tmp_path):
    tree(tmp_path, {f"data/train/{IMAGE}": ""})
    (tmp_path / "data" / "again").symlink_to(tmp_path)
    (tmp_path / "imagenet").symlink_to(tmp_path / "data")
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "lost").symlink_to("nowhere")
    assert train(tmp_path) == [f"data/train/{IMAGE}"]


def test_hidden_folders_and_folders_of_classes_are_not_searched(tmp_path):
    tree(tmp_path, {f".cache/train/{IMAGE}": ""})
    tree(tmp_path, {f"many/{number:03d}/x": "" for number in range(opening.WIDTH)})
    tree(tmp_path, {f"many/classes/train/{IMAGE}": ""})
    assert f"is not in {tmp_path}" in refusal("imagenet", tmp_path, "train")


def test_the_search_ends_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "FOLDERS", 3)
    tree(tmp_path, {f"{name}/x": "" for name in "abcd"} | {f"z/train/{IMAGE}": ""})
    assert "not searched: all after the first 3 folders" in refusal("imagenet", tmp_path, "train")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_without_permission_is_named(tmp_path):
    closed = tree(tmp_path, {"lost+found/x": ""}) / "lost+found"
    closed.chmod(0)
    try:
        assert "not searched: lost+found (no permission)" in refusal("imagenet", tmp_path, "train")
    finally:
        closed.chmod(0o700)


def test_what_a_folder_may_not_be_read_for_is_asked_of_the_system(tmp_path, monkeypatch):
    tree(tmp_path, {"lost+found/x": "", f"a/train/{IMAGE}": ""})
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "lost+found")
    result = search_below(tmp_path, lambda home: home.name if home.name == "a" else None)
    assert result == ([(tmp_path / "a", "a")], ["lost+found (no permission)"])


def test_data_of_others_beside_the_dataset_do_not_matter(tmp_path):
    """Tiny ImageNet's class folders and Kaggle's annotations have wnids, and no image of ILSVRC2012 in them."""
    files = {
        f"tiny-imagenet-200/train/{TENCH}/images/{TENCH}_0.JPEG": "",
        f"ILSVRC/Annotations/CLS-LOC/train/{TENCH}/{TENCH}_1.xml": "",
        "imagenet21k/train/n00007846/n00007846_1.JPEG": "",
        f"ILSVRC/Data/CLS-LOC/train/{IMAGE}": "",
    }
    assert train(tree(tmp_path, files)) == [f"ILSVRC/Data/CLS-LOC/train/{IMAGE}"]


@pytest.mark.parametrize(
    ("key", "files", "words"),
    [
        ("imagenet", {"train/n01440764/README": ""}, "README is not named n01440764_<number>.JPEG. Restore"),
        ("imagenet", {f"train/{IMAGE}": "", f"train/{GOLDFISH}/.DS_Store": ""}, f"{GOLDFISH} holds no image of"),
        ("imagenet", {f"train/{TENCH}/images/{TENCH}_0.JPEG": ""}, "images is a folder. Restore its images"),
        ("food101", {"images/apple_pie/a.png": "", "images/apple_pie/b.png": ""}, "a.png is not named <number>.jpg"),
        ("caltech256", {"001.ak47/002_0001.jpg": ""}, "002_0001.jpg is not named 001_<4 digits>.jpg"),
        ("places365", {"data_256/a/airfield/1.jpg": ""}, "1.jpg is not named <8 digits>.jpg"),
        ("dtd", {"images/banded/.directory": ""}, ".directory is not named banded_<4 digits>.jpg"),
        ("sun397", {"SUN397/a/abbey/1.jpg": ""}, "1.jpg is not named sun_<letters>.jpg"),
    ],
)
def test_a_class_folder_of_strays_is_refused_with_one_of_them(tmp_path, key, files, words):
    message = refusal(key, tree(tmp_path, files), next(iter(SOURCES[key].expected())))
    assert_sentence(message)
    assert words in message


def test_an_empty_class_folder_is_only_short(tmp_path):
    tree(tmp_path, {f"train/{IMAGE}": ""})
    (tmp_path / "train" / GOLDFISH).mkdir()
    assert train(tmp_path) == [f"train/{IMAGE}"]
