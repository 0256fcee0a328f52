"""Zips are unpacked whole or not at all, and nothing leaves its folder."""

import stat
import zipfile

import pytest

from builders.errors import BuildError
from builders.fetch.unzip import unzip

FILES = {"set/a.jpg": b"a" * 1000, "set/deep/b.jpg": b"b" * 10, "other/c.jpg": b"c"}


def zipped(path, files, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_folder_or_a_file_comes_out_and_the_rest_stays_packed(tmp_path):
    archive = zipped(tmp_path / "x.zip", FILES)
    into = tmp_path / "out"
    assert unzip(archive, "set", into) == 2
    assert unzip(archive, "other/c.jpg", into) == 1
    assert tree(into) == FILES


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-30], "is not a whole zip"),
        (lambda data: data.replace(b"a" * 1000, b"a" * 999 + b"x"), "is not a whole zip"),
        (lambda data: data.replace(b"other/c.jpg", b"set/a.jpg\0\0"), "is not a whole zip"),
        (lambda data: b"<html>not here</html>", "is not a whole zip"),
        (lambda data: data.replace(b"set/deep/b.jpg", b"set/../../.jpg"), "could leave its folder"),
        (lambda data: data.replace(b"set/deep/b.jpg", b"set/deep\\b.jpg"), "could leave its folder"),
        (lambda data: data.replace(b"set/", b"sot/"), "does not hold set"),
    ],
    ids=["cut", "changed", "twice", "no zip", "out", "backslash", "without"],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_left(change, words, tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(change(zipped(path, FILES, zipfile.ZIP_STORED).read_bytes()))
    into = tmp_path / "out"
    with pytest.raises(BuildError) as caught:
        unzip(path, "set", into)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert not into.exists() or list(into.iterdir()) == []


def test_links_and_bombs_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.zip"
    link = zipfile.ZipInfo("set/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc")
    with pytest.raises(BuildError, match="set/link', which is a link or"):
        unzip(path, "set", tmp_path / "out")
    monkeypatch.setattr("builders.sources.readers.zips._ALWAYS", 1 << 16)
    zipped(path, {"set/zeros": bytes(1 << 20)})
    with pytest.raises(BuildError, match="would unpack to 1,048,576 bytes"):
        unzip(path, "set", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_killed_run_left_is_replaced(tmp_path):
    into = tmp_path / "out"
    (into / ".set.tmp" / "set" / "deep").mkdir(parents=True)
    (into / ".set.tmp" / "set" / "deep" / "x.jpg").write_bytes(b"half")
    unzip(zipped(tmp_path / "x.zip", FILES), "set", into)
    assert tree(into) == {name: data for name, data in FILES.items() if name.startswith("set/")}
