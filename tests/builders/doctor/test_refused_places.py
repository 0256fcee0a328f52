"""Places and indexes that `doctor` and `compare` do not take, and folders that cannot be read."""

import os

import pytest

import unknown_detection as ud
from builders.errors import BuildError
from builders.sources.readers import folders
from tests.builders.trees import linked, tree
from tests.sentences import assert_sentence, stops


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["names.csv", "folder", "fifo"])
def test_what_is_no_index_is_called_what_it_is(demo, tmp_path, name):
    """A CSV was called a folder without a manifest.json."""
    tree(tmp_path, {"names.csv": "a.jpg,1\n", "folder/a.jpg": b""})
    os.mkfifo(tmp_path / "fifo")
    with stops(BuildError, str(tmp_path / name), "--against takes", "--write-index", "ORG/NAME") as caught:
        ud.doctor(demo["dtd"], against=str(tmp_path / name))
    assert ("a folder without a manifest.json" in str(caught.value)) == (name == "folder")


@pytest.mark.parametrize("command", [ud.doctor, lambda place: ud.compare(place, place)])
@pytest.mark.parametrize("name", ["/dev/null", "fifo"])
def test_a_device_or_a_pipe_is_refused_as_such(tmp_path, command, name):
    """/dev/null was taken for ImageNetV2, since its folder was looked into."""
    os.mkfifo(tmp_path / "fifo")
    with stops(BuildError, name, "neither a folder nor a regular file"):
        command(tmp_path / name)


@pytest.mark.parametrize("name", ["DEMO.txt", "images/blotchy/blotchy_0160.jpg", "names.parquet"])
@pytest.mark.parametrize("key", ["dtd", "food101"])
def test_a_file_that_is_no_archive_is_refused_by_what_doctor_takes(demo, tmp_path, key, name):
    """It was called a damaged tar.gz, or a neighbour's fault was told of it."""
    root = linked(demo[key], tmp_path / "copy")
    (root / name).unlink(missing_ok=True)
    tree(root, {name: "text", "food-101.tar.gz": b"damaged"})
    with stops(BuildError, str(root / name), "is no archive of a dataset", ".tar.gz", ".zip") as caught:
        ud.doctor(root / name)
    assert "Download" not in str(caught.value)


@pytest.mark.parametrize("command", [ud.doctor, lambda place: ud.compare(place, place)])
@pytest.mark.parametrize("key", ["dtd", "imagenet"])
def test_a_folder_that_may_not_be_read_is_no_fault_of_the_copy(demo, tmp_path, monkeypatch, command, key):
    """It was `not as the owner's`, with the advice to put it in its place. `root` may list all, so listing fails here.

    ImageNet without one class was taken for Tiny ImageNet, too.
    """
    root = linked(demo[key], tmp_path / "copy")
    name = "blotchy" if key == "dtd" else "n01440764"
    listdir = os.listdir

    def refused(place=".", *rest):
        if os.fspath(place).endswith(name):
            raise PermissionError(13, "Permission denied", os.fspath(place))
        return listdir(place, *rest)

    monkeypatch.setattr(os, "listdir", refused)
    with stops(BuildError, f"{name}: Permission denied", "Allow this user to") as caught:
        command(root)
    assert "owner" not in str(caught.value) and "Put the folder" not in str(caught.value)


def test_the_folder_that_may_not_be_read_is_named_and_not_what_was_looked_for_in_it(tmp_path, monkeypatch):
    """`copy/b/train: permission denied` named a folder that is not there."""
    (tmp_path / "copy" / "b").mkdir(parents=True)
    is_readable = folders.is_readable
    monkeypatch.setattr(folders, "is_readable", lambda path: path.name != "b" and is_readable(path))
    asked = PermissionError(13, "Permission denied", str(tmp_path / "copy" / "b" / "train"))
    assert_sentence(str(folders.not_permitted(asked)), f"Cannot list {tmp_path / 'copy' / 'b'}: ")


@pytest.mark.parametrize("command", [ud.doctor, lambda place: ud.compare(place, place.with_name("whole"))])
def test_a_closed_folder_below_images_of_no_known_source_is_not_passed_over(demo, tmp_path, monkeypatch, command):
    """Two copies were equal, since one that differs lay in a folder that could not be listed."""
    picture = (demo["dtd"] / "images/blotchy/blotchy_0160.jpg").read_bytes()
    tree(tmp_path, {"copy/a.jpg": picture, "whole/a.jpg": picture, "copy/x/y/z/w/closed/b.jpg": picture})
    scandir = os.scandir

    def refused(place="."):
        if os.fspath(place).endswith("closed"):
            raise PermissionError(13, "Permission denied", os.fspath(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", refused)
    with stops(BuildError, "closed: Permission denied", "Allow this user to"):
        command(tmp_path / "copy")
