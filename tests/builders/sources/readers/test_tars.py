import gzip
import io
import tarfile

import numpy as np
import pytest

from builders.errors import BuildError
from builders.sources.readers import tars
from tests.builders.trees import add

FILES = {"a.jpg": b"a" * 700, "empty.jpg": b"", "folder/b.jpg": b"b" * 512, "c.jpg": b"c"}


def packed(path, form=tarfile.USTAR_FORMAT, files=FILES, **fields):
    with tarfile.open(path, "w", format=form) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            add(archive, name, content, **fields)
    return path


def read(path, members):
    data = path.read_bytes()
    return {member.name: data[member.offset : member.offset + member.size] for member in members}


@pytest.fixture
def opened_by_tarfile(monkeypatch):
    """How often the fallback is used."""
    calls = []
    original = tarfile.open
    monkeypatch.setattr(tarfile, "open", lambda *args, **options: calls.append(1) or original(*args, **options))
    return calls


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_plain_headers_are_walked_without_tarfile(tmp_path, form, opened_by_tarfile):
    path = packed(tmp_path / "x.tar", form)
    del opened_by_tarfile[:]
    found = read(path, tars.members(path))
    assert found == {"a.jpg": b"a" * 700, "empty.jpg": b"", "b.jpg": b"b" * 512, "c.jpg": b"c"}
    assert opened_by_tarfile == []


@pytest.mark.parametrize(
    ("form", "extra", "fields"),
    [
        (tarfile.GNU_FORMAT, {"d/" * 80 + "long.jpg": b"long"}, {}),
        (tarfile.PAX_FORMAT, {"d/" * 80 + "long.jpg": b"long"}, {}),
        (tarfile.USTAR_FORMAT, {"d/" * 80 + "long.jpg": b"long"}, {}),
        (tarfile.PAX_FORMAT, {"é.jpg": b"e"}, {}),
        (tarfile.PAX_FORMAT, {}, {"mtime": 1.25}),
    ],
)
def test_other_headers_go_to_tarfile(tmp_path, form, extra, fields, opened_by_tarfile):
    path = packed(tmp_path / "x.tar", form, FILES | extra, **fields)
    del opened_by_tarfile[:]
    found = read(path, tars.members(path))
    assert found == {name.rpartition("/")[2]: content for name, content in (FILES | extra).items()}
    assert opened_by_tarfile == [1]


def test_inner_tars_are_found_inside_the_outer_file(tmp_path):
    path = tmp_path / "outer.tar"
    with tarfile.open(path, "w") as archive:
        for name, form, fields in (("z", tarfile.USTAR_FORMAT, {}), ("a", tarfile.PAX_FORMAT, {"mtime": 0.5})):
            add(archive, f"{name}.tar", packed(tmp_path / "inner.tar", form, **fields).read_bytes())
        add(archive, "readme.txt", b"hello")
    found = {name: read(path, members) for name, members in tars.nested_members(path)}
    inner = {name.rpartition("/")[2]: content for name, content in FILES.items()}
    assert found == {"a": inner, "readme.txt": {}, "z": inner}
    assert list(found) == ["a", "readme.txt", "z"]


def test_members_are_sorted_and_split_by_name(tmp_path):
    names = ["n_2.jpg", "x.txt", "n_10.jpg", "é.jpg", "n_1.jpg"]
    path = packed(tmp_path / "x.tar", tarfile.GNU_FORMAT, {name: name.encode() for name in names})
    found = tars.match_members(tars.members(path), "^n_[0-9]+[.]jpg$")
    assert found.names.to_pylist() == ["n_1.jpg", "n_10.jpg", "n_2.jpg"]
    assert found.others == ["x.txt", "é.jpg"]
    data = path.read_bytes()
    starts, sizes = found.offsets.to_pylist(), found.sizes.to_pylist()
    assert [data[a : a + n].decode() for a, n in zip(starts, sizes, strict=True)] == found.names.to_pylist()


def refused(path):
    with pytest.raises(BuildError) as caught:
        tars.members(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("cut", [100, 1200, 1600])
def test_an_archive_cut_short_is_refused(tmp_path, cut):
    path = packed(tmp_path / "x.tar")
    path.write_bytes(path.read_bytes()[:cut])
    assert "Download the archive again" in refused(path)


def test_a_compressed_archive_is_refused(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w:gz") as archive:
        add(archive, "a.jpg", b"a")
    assert "uncompressed" in refused(tmp_path / "x.tar")


def test_a_file_in_pieces_is_refused(tmp_path):
    path = packed(tmp_path / "x.tar", tarfile.GNU_FORMAT, {"a.jpg": b"a"}, type=tarfile.GNUTYPE_SPARSE)
    assert "in pieces" in refused(path)


def test_an_inner_archive_cut_short_is_refused(tmp_path):
    inner = packed(tmp_path / "inner.tar", files={"a.jpg": b"a" * 2000}).read_bytes()
    with tarfile.open(tmp_path / "outer.tar", "w") as archive:
        add(archive, "n.tar", inner[:2048])
        add(archive, "next.tar", io.BytesIO(inner).getvalue())
    with pytest.raises(BuildError, match="cut short"):
        list(tars.nested_members(tmp_path / "outer.tar"))


def test_members_keep_the_folder_that_the_archive_spells(tmp_path):
    files = {"top.jpg": b"", "./a/one.jpg": b"", "d/" * 80 + "long.jpg": b""}
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT):
        found = tars.members(packed(tmp_path / "x.tar", form, files))
        assert [member.folder for member in found] == ["", "./a", ("d/" * 80).rstrip("/")]


def compressed(path, files=FILES):
    plain = packed(path.with_suffix(".plain"), files=files).read_bytes()
    path.write_bytes(gzip.compress(plain))
    return path


def test_a_compressed_archive_is_listed_by_number_and_unpacked_by_it(tmp_path):
    path = compressed(tmp_path / "x.tar.gz")
    found = tars.compressed_members("X", path)
    assert [(m.name, m.folder, m.offset, m.size) for m in found] == [
        ("a.jpg", "", 0, 700),
        ("empty.jpg", "", 1, 0),
        ("b.jpg", "folder", 2, 512),
        ("c.jpg", "", 3, 1),
    ]
    assert [image for batch in tars.unpack(path, np.arange(4)) for image in batch] == list(FILES.values())
    assert list(tars.unpack(path, np.array([0, 2]))) == [[b"a" * 700], [b"b" * 512]]
    assert list(tars.unpack(path, np.array([], dtype=np.int64))) == []


def damaged(content, cut=None, flip=None):
    changed = bytearray(content[:cut])
    if flip is not None:
        changed[flip] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize(
    "change",
    [
        {"cut": 0},
        {"cut": 5},
        {"cut": 60},
        {"cut": -9},  # the check sum and one byte before it
        {"cut": -3},
        {"flip": 0},
        {"flip": 40},
        {"flip": -6},  # the check sum itself
    ],
)
def test_a_damaged_compressed_archive_is_refused(tmp_path, change):
    path = compressed(tmp_path / "x.tar.gz", {f"{number}.jpg": bytes([number]) * 900 for number in range(40)})
    path.write_bytes(damaged(path.read_bytes(), **change))
    with pytest.raises(BuildError, match=r"X: .* cannot be read as a tar\.gz .*\. Download it again") as caught:
        tars.compressed_members("X", path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_compressed_archive_that_changed_since_it_was_listed(tmp_path):
    path = compressed(tmp_path / "x.tar.gz")
    with pytest.raises(
        BuildError, match=r"x\.tar\.gz changed during the build: expected at least 8 files, found 4\. Run the same"
    ):
        list(tars.unpack(path, np.array([1, 7])))
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(BuildError, match=r"cannot be read as a tar\.gz"):
        list(tars.unpack(path, np.array([1, 3])))
