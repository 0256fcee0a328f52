"""Copies and indexes of somebody who means ill, or whose disk does: a finding or one sentence, and nothing written."""

import io
import os
import shutil
import socket
import tarfile

import pyarrow.parquet as pq
import pytest

import unknown_detection as ud
from builders.commands.compare import main as compare
from builders.commands.doctor import main as doctor
from builders.errors import BuildError
from tests.builders.trees import add, linked
from tests.sentences import stops

ONE = "images/blotchy/blotchy_0160.jpg"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def whole_index(demo, tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "dtd.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path.parent / "cache"))
        doctor([str(demo["dtd"]), "--write-index", str(path), "--workers", "1", "--json"])
    return path


@pytest.fixture
def index(whole_index, tmp_path):
    """An index of the demo, for one test alone."""
    return shutil.copy(whole_index, tmp_path / whole_index.name)


def named(found, name):
    """What was found of the image `name`."""
    return {(each["kind"], each["detail"]) for each in found["differences"] if name in each["id"]}


def empty(path, _):
    path.touch()


def pipe(path, _):
    os.mkfifo(path)


def device(path, _):
    path.symlink_to("/dev/zero")


def nowhere(path, _):
    path.symlink_to("nowhere")


def round_and_round(path, _):
    path.symlink_to(path.name)


def folder(path, _):
    path.mkdir()


def elsewhere(path, tmp_path):
    """A link to a file that is no image."""
    (tmp_path / "secret.txt").write_text("secret")
    path.symlink_to(tmp_path / "secret.txt")


@pytest.mark.parametrize("put", [empty, pipe, device, nowhere, round_and_round, elsewhere])
@pytest.mark.parametrize("quick", [False, True])
def test_what_stands_in_the_place_of_an_image_is_a_finding(demo, index, tmp_path, put, quick):
    root = linked(demo["dtd"], tmp_path / "copy")
    (root / ONE).unlink()
    put(root / ONE, tmp_path)
    found = ud.doctor(root, against=str(index), quick=quick)
    ((kind, detail),) = named(found, "blotchy_0160")
    assert kind in ("unreadable", "truncated")
    assert detail and "secret" not in detail.replace("secret.txt", "")
    assert not found["whole"]
    assert ud.compare(root, index)["kinds"] == {kind: 1}


def test_two_copies_with_a_pipe_in_the_place_of_an_image_are_not_equal(demo, tmp_path):
    roots = [linked(demo["dtd"], tmp_path / name) for name in ("a", "b")]
    (roots[0] / ONE).unlink()
    os.mkfifo(roots[0] / ONE)
    for a, b in (roots, roots[::-1]):
        found = ud.compare(a, b)
        assert (found["kinds"], found["equal"]) == ({"unreadable": 1}, False)
    (roots[1] / ONE).unlink()
    os.mkfifo(roots[1] / ONE)
    assert ud.compare(*roots)["kinds"] == {"unreadable": 1}


def test_a_name_that_is_no_text_in_a_folder_of_any_images_is_a_finding(demo, tmp_path):
    data = (demo["dtd"] / ONE).read_bytes()
    (tmp_path / "pictures").mkdir()
    for name in (b"a.jpg", b"b\xff.jpg"):
        (tmp_path / "pictures" / os.fsdecode(name)).write_bytes(data)
    found = ud.doctor(tmp_path / "pictures")
    assert [each["kind"] for each in found["differences"]] == ["unreadable"]


def test_a_folder_in_the_place_of_an_image_is_a_missing_one(demo, index, tmp_path):
    root = linked(demo["dtd"], tmp_path / "copy")
    (root / ONE).unlink()
    folder(root / ONE, tmp_path)
    assert sum(ud.doctor(root, against=str(index))["kinds"].values()) == 1


def test_names_of_any_bytes_and_controls_are_shown_and_print(demo, index, tmp_path, capsysbinary):
    root = linked(demo["dtd"], tmp_path / "copy")
    for name in (b"blotchy_\xff\xfe.jpg", b"blotchy_\x1b[31m.jpg", "blotchy_\u202e.jpg".encode()):
        os.link(root / ONE, os.fsencode(root / "images" / "blotchy") + b"/" + name)
    table, page = tmp_path / "found.csv", tmp_path / "page.html"
    words = ["--csv", str(table), "--page", str(page), "--workers", "1"]
    assert doctor([str(root), "--against", str(index), *words]) == 1
    out = capsysbinary.readouterr().out
    assert out.decode().replace("\n", "").isprintable()
    assert table.read_text(encoding="utf-8").count("\nextra,") == 3
    page.read_text(encoding="utf-8").encode()
    assert doctor([str(root), "--workers", "1", "--json"]) == 1


@pytest.mark.parametrize("name", ["/etc/passwd.jpg", "../../up.jpg", "a//b.jpg", "./c.jpg", "x" * 300 + ".jpg"])
def test_odd_names_in_a_tar_write_nowhere(demo, tmp_path, name):
    data = (demo["dtd"] / ONE).read_bytes()
    place = tmp_path / "images.tar"
    with tarfile.open(place, "w") as archive:
        add(archive, "a/1.jpg", data)
        add(archive, name, data)
    before = sorted(tmp_path.rglob("*"))
    found = ud.doctor(place)
    assert found["found"][0]["images"] == 2
    assert ud.compare(place, place)["equal"]
    assert [path for path in sorted(tmp_path.rglob("*")) if "cache" not in path.parts] == before


@pytest.mark.parametrize("name", ["x.tar", "x.zip", "x.tar.gz"])
@pytest.mark.parametrize("data", [b"", b"PK\x05\x06", bytes(512), bytes(10240), b"\x1f\x8b" + bytes(20), b"abc"])
def test_archives_that_are_none_are_one_sentence(tmp_path, name, data, capsys):
    (tmp_path / name).write_bytes(data)
    for command in ([doctor, str(tmp_path / name)], [compare, str(tmp_path / name), str(tmp_path / name)]):
        assert command[0](command[1:]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ") and line.endswith(".")


def test_links_in_an_archive_are_not_followed(tmp_path, demo):
    (tmp_path / "secret.jpg").write_bytes((demo["dtd"] / ONE).read_bytes())
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        add(archive, "a/1.jpg", (demo["dtd"] / ONE).read_bytes())
        add(archive, "a/2.jpg", b"", type=tarfile.SYMTYPE, linkname=str(tmp_path / "secret.jpg"))
    with stops(BuildError, "images.tar", "a/2.jpg", "a link"):
        ud.doctor(tmp_path / "images.tar")


def test_a_link_to_a_folder_elsewhere_is_not_walked(demo, index, tmp_path):
    root = linked(demo["dtd"], tmp_path / "copy")
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "1.jpg").write_bytes((demo["dtd"] / ONE).read_bytes())
    (root / "images" / "elsewhere").symlink_to(tmp_path / "many")
    (root / "images" / "round").symlink_to(root)
    assert ud.doctor(root, against=str(index))["whole"]


@pytest.mark.parametrize("told", [b'{"format":2,"more":[]}', b"{}", b"[]", b"", b'{"format":1}'])
def test_an_index_of_another_version_is_one_sentence(demo, index, told):
    table = pq.read_table(index)
    metadata = {b"unknown_detection.index": told}
    pq.write_table(table.replace_schema_metadata(metadata), index)
    with pytest.raises(BuildError) as caught:
        ud.doctor(demo["dtd"], against=str(index))
    assert str(index) in str(caught.value)
    assert "\n" not in str(caught.value)
    if b'"format":2' in told:
        assert "of another format" in str(caught.value)


def test_an_index_of_another_source_is_one_sentence(demo, index):
    with stops(BuildError, "dtd.parquet", "has no rows of"):
        ud.doctor(demo["ninco"], against=str(index))


def test_no_connection_is_made(demo, index, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("a connection")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    assert ud.doctor(demo["dtd"], against=str(index))["whole"]
    assert ud.compare(demo["dtd"], index)["equal"]


def test_nothing_is_written_into_either_side_of_a_comparison(demo, index, tmp_path):
    root = linked(demo["dtd"], tmp_path / "copy")
    before = {path: path.stat().st_mtime_ns for path in sorted(root.rglob("*"))}
    (root / "images").chmod(0o755)
    times = index.stat().st_mtime_ns
    ud.compare(root, index)
    ud.doctor(root, against=str(index))
    assert {path: path.stat().st_mtime_ns for path in sorted(root.rglob("*"))} == before
    assert index.stat().st_mtime_ns == times
    assert compare([str(root), str(index), "--csv", str(root / "found.csv")]) == 2
    assert not (root / "found.csv").exists()


def test_what_a_killed_run_kept_half_is_read_again(demo, index, tmp_path, monkeypatch):
    """As after a power cut: the kept file has no bytes, or others."""
    from builders.doctor import diagnose

    def stopped(*_, **__):
        raise KeyboardInterrupt

    for content in (b"", b"ARROW1\0\0" + bytes(200), None):
        with monkeypatch.context() as patch:
            patch.setattr(diagnose, "copy_side", stopped)
            assert doctor([str(demo["dtd"]), "--workers", "1"]) == 130
        kept = list((tmp_path / "cache").rglob("*.arrow"))
        assert kept
        for path in kept:
            path.write_bytes(path.read_bytes()[:-100] if content is None else content)
        assert ud.doctor(demo["dtd"], against=str(index))["whole"]


def test_an_image_that_changed_after_the_kill_is_read_again(demo, index, tmp_path, monkeypatch):
    from builders.doctor import diagnose

    root = linked(demo["dtd"], tmp_path / "copy")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(diagnose, "copy_side", stopped)
        assert doctor([str(root), "--workers", "1"]) == 130
    data = (root / ONE).read_bytes()
    (root / ONE).unlink()
    (root / ONE).write_bytes(data[: len(data) // 2])
    assert ud.doctor(root, against=str(index))["kinds"] == {"truncated": 1}


def test_an_image_of_no_bytes_in_a_tar_is_a_finding(demo, tmp_path):
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        add(archive, "a/1.jpg", (demo["dtd"] / ONE).read_bytes())
        add(archive, "a/2.jpg", b"")
    found = ud.doctor(tmp_path / "images.tar")
    assert [(each["kind"], each["id"]) for each in found["differences"]] == [("unreadable", "a/2.jpg")]


def test_a_tar_that_was_cut_is_one_sentence_or_a_finding(demo, tmp_path, capsys):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for number in range(4):
            add(archive, f"a/{number}.jpg", (demo["dtd"] / ONE).read_bytes())
    (tmp_path / "images.tar").write_bytes(data.getvalue()[: len(data.getvalue()) // 3])
    assert doctor([str(tmp_path / "images.tar"), "--workers", "1"]) in (1, 2)
