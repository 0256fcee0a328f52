"""Patterns over names: they match the same in folders, archives and tars of tars."""

import os
import tarfile

import pyarrow as pa
import pytest

from builders.sources.base import Home
from builders.sources.readers import tars, trees
from builders.sources.readers.trees import match_names
from tests.builders.trees import add, tree, write_tar

FILES = {"a/n_2.jpg": b"22", "a/x.txt": b"", "b/n_10.jpg": b"ten", "b/\u00e9.jpg": b"", "b/n_1.jpg": b"1"}
CONTENTS = {"2": b"22", "10": b"ten", "1": b"1"}
PATTERN = r"(?P<class_id>[ab])/n_(?P<number>[0-9]+)\.jpg"


def home(root):
    return Home(None, root, root, "images")


def in_folders(root):
    """The files in a folder whose name has what regular expressions and messages treat as signs."""
    tree(root, {f"copy (1) [x] \u00e9/{name}": content for name, content in FILES.items()})
    return trees.in_folders(home(root), root / "copy (1) [x] \u00e9", ("a", "b"))


def in_archive(ending):
    """The files below one folder of an archive that has others."""

    def written(root):
        files = {f"./set/{name}": content for name, content in FILES.items()}
        write_tar(root / f"x.{ending}", {"readme": b"", **files})
        return trees.in_archive(home(root), "x", "set/")

    return written


def in_misnamed(root):
    """The archive under the name of a compressed one, as ImageNetV2's owners have theirs."""
    in_archive("tar")(root)
    (root / "x.tar").rename(root / "x.tar.gz")
    return trees.in_archive(home(root), "x", "set/")


def in_tars(root):
    """Each folder as a tar in a tar."""
    with tarfile.open(root / "x.tar", "w") as outer:
        for folder in ("a", "b"):
            inner = {name[2:]: content for name, content in FILES.items() if name.startswith(folder)}
            write_tar(root / "inner.tar", inner)
            add(outer, folder, (root / "inner.tar").read_bytes())
    path = root / "x.tar"
    with path.open("rb") as file:
        outer_members = {member.name: member for member in tars.members(path)}
        inner = []
        for name, member in outer_members.items():
            file.seek(member.start)
            (root / "inner.tar").write_bytes(file.read(member.size))
            members = tars.members(root / "inner.tar")
            moved = [one._replace(start=one.start + member.start) for one in members]
            inner.append((name, path, moved))
    return trees.in_tars(home(root), path, inner)


@pytest.mark.parametrize("make", [in_folders, in_archive("tar"), in_archive("tar.gz"), in_misnamed, in_tars])
def test_a_pattern_finds_the_same_in_any_tree(tmp_path, make):
    files = make(tmp_path).match(PATTERN)
    rows = files.rows.to_pylist()
    assert sorted((row["class_id"], row["number"]) for row in rows) == [("a", "2"), ("b", "1"), ("b", "10")]
    assert sorted(files.others) == [("a/x.txt", ""), ("b/\u00e9.jpg", "")]
    if files.how == "span":
        data = (tmp_path / rows[0]["file"]).read_bytes()
        assert {row["number"]: data[row["offset"] : row["offset"] + row["size"]] for row in rows} == CONTENTS
    if files.how == "file":
        assert {row["number"]: (tmp_path / row["file"]).read_bytes() for row in rows} == CONTENTS


def test_names_that_are_not_utf_8_are_others(tmp_path):
    tree(tmp_path, {"1.jpg": ""})
    (tmp_path / os.fsdecode(b"caf\xe9.jpg")).touch()
    files = trees.in_folders(home(tmp_path), tmp_path).match(r"(?P<id>.*)\.jpg")
    assert files.column("id").to_pylist() == ["1"]
    (stray,) = files.strays(lambda name: "odd")
    assert stray.path == "caf\ufffd.jpg"


def test_a_repeated_group_has_the_same_text_or_none():
    pattern = r"(?:(?P<x>[a-z])/)?(?P<file>[0-9])(?:_(?P<x_again>[a-z]))?(?:-(?P<x_again2>[a-z]))?"
    names = ["a/1_a", "a/2_b", "a/3", "4_c", "5", "6-d", "7_e-f", "8_e-e", "a/9 "]
    fits, groups = match_names(pa.array(names), pattern)
    assert fits.to_pylist() == [True, False, True, True, True, True, False, True, False]
    assert groups["file"].to_pylist() == ["1", "3", "4", "5", "6", "8"]
    assert groups["x"].to_pylist() == ["a", "a", "c", "", "d", "e"]
    assert set(groups) == {"file", "x"}


def test_images_left_out_are_others_for_a_reason(tmp_path):
    tree(tmp_path, dict.fromkeys(("1", "2", "3", "x"), ""))
    files = trees.in_folders(home(tmp_path), tmp_path).match("(?P<id>[0-9])")
    selected = files.keep(pa.array([True, False, True]), "not listed").keep(pa.array([True, False]))
    assert selected.column("id").to_pylist() == ["1"]
    assert {stray.path: stray.reason for stray in selected.strays(lambda _: "not named")} == {
        "2": "not listed",
        "x": "not named",
    }
