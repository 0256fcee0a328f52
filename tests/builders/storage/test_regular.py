"""Only regular files are opened: nothing hangs on a named pipe."""

import os
import socket

import pytest

from builders.errors import BuildError, one_line
from builders.storage.regular import open_regular, require_regular


@pytest.mark.timeout(10)
@pytest.mark.parametrize("check", [open_regular, require_regular])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, check, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    os.mkfifo("pipe")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name, kind in (("pipe", "a named pipe"), ("folder", "a folder"), ("socket", "a socket")):
            with pytest.raises(BuildError, match=rf"{name} is {kind}, not a file\. Put the file itself there\.$"):
                check(tmp_path / name)
    with pytest.raises(BuildError, match=r"/dev/zero is a device, not a file"):
        check(tmp_path / "/dev/zero")
    with pytest.raises(BuildError, match=r"^Cannot read .*nothing: No such file or directory\. Restore it"):
        check(tmp_path / "nothing")


def test_files_and_links_to_files_are_opened(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        with open_regular(tmp_path / name) as opened:
            assert opened.read() == b"content"


def test_text_of_unknown_origin_stays_on_one_line():
    assert one_line("crème brûlée/雷.jpg") == "crème brûlée/雷.jpg"
    assert one_line("a\nb\x1b[31m\0\udce9\u202e") == "a\\nb\\x1b[31m\\x00\\udce9\\u202e"
    assert one_line("a" * 1000, 10) == "aaaaaaaaaa..."
