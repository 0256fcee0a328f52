"""Zips that are read without unpacking, compared with what the standard library makes of them."""

import stat
import zipfile

import numpy as np
import pytest

from builders.errors import BuildError
from builders.sources.readers import zips

FILES = {"set/a.jpg": b"a" * 700, "set/empty.jpg": b"", "set/folder/b.jpg": b"b" * 512, "c.jpg": b"c"}


def zipped(path, method=zipfile.ZIP_DEFLATED, files=FILES):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.mkdir("set")
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_files_come_by_number(method, tmp_path):
    path = zipped(tmp_path / "x.zip", method)
    members = zips.members(path)
    assert [(file.name, file.start, file.size) for file in members] == [
        (name, number, len(data)) for number, (name, data) in enumerate(FILES.items())
    ]
    assert [image for (image,) in zips.unpack_zip(path, np.arange(4))] == list(FILES.values())
    assert list(zips.unpack_zip(path, np.array([0, 2]))) == [[b"a" * 700], [b"b" * 512]]
    assert list(zips.unpack_zip(path, np.array([], dtype=np.int64))) == []
    assert (zips.read_file(path, "c.jpg"), zips.read_file(path, "d.jpg")) == (b"c", None)


def test_a_zip_that_changed_during_the_build_is_one_sentence(tmp_path):
    path = zipped(tmp_path / "x.zip")
    with pytest.raises(BuildError, match=r"changed during the build: expected at least 8 files, found 4\."):
        list(zips.unpack_zip(path, np.array([1, 7])))
    path.write_bytes(zipped(path, zipfile.ZIP_STORED).read_bytes().replace(b"a" * 700, b"a" * 699 + b"x"))
    assert len(zips.members(path)) == 4  # the listing alone does not show it
    with pytest.raises(BuildError, match=r"is not a whole zip \(Bad CRC-32 .*Download it again\."):
        list(zips.unpack_zip(path, np.array([0])))


def test_a_file_larger_than_any_image_and_a_link_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(zips, "LARGEST_IMAGE", 600)
    with pytest.raises(BuildError, match=r"named 'set/a.jpg' of 700 bytes, more than any image of a source"):
        zips.members(zipped(tmp_path / "x.zip"))
    link = zipfile.ZipInfo("set/link.jpg")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(BuildError, match=r"set/link.jpg', which is a link or"):
        zips.members(tmp_path / "y.zip")
