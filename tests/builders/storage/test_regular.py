"""Only regular files are read, and never more than they may have."""

import os
import re

import pytest

from builders.storage.regular import read_bytes


def test_a_file_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"\r\nabc")
    (tmp_path / "link").symlink_to("a")
    assert read_bytes(tmp_path / "a", 5) == read_bytes(tmp_path / "link", 100) == b"\r\nabc"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_bytes(b"123456"), "it has more than 5 bytes"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
    ],
    ids=["large", "fifo", "folder", "device", "loop", "dangling"],
)
@pytest.mark.timeout(10)
def test_anything_else_is_an_error_of_the_system(tmp_path, make, reason):
    make(tmp_path / "a")
    with pytest.raises(OSError, match=re.escape(reason)) as caught:
        read_bytes(tmp_path / "a", 5)
    assert caught.value.strerror == reason and caught.value.filename == str(tmp_path / "a")
