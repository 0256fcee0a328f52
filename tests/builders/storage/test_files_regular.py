import os
import socket
import sys
from pathlib import Path

import pytest

import builders
import unknown_detection
from builders.errors import BuildError
from builders.storage import files
from builders.storage.files import atomic_path, open_buffered, open_regular, read_regular, require_regular
from tests.sentences import assert_sentence, stops

OURS = tuple(str(Path(package.__file__).parent) for package in (builders, unknown_detection))


def test_files_and_links_to_them_are_read(tmp_path):
    (tmp_path / "a").write_bytes(b"abc" * 9000)
    (tmp_path / "link").symlink_to("a")
    for name in ("a", "link"):
        assert read_regular(tmp_path / name) == b"abc" * 9000
        with open_regular(str(tmp_path / name)) as raw, open_buffered(tmp_path / name) as buffered:
            assert raw.read(3) == buffered.read(3) == b"abc"


def test_files_of_no_stated_size_and_large_ones_are_read_to_their_end(tmp_path, monkeypatch):
    """Files of /proc have the size 0, and large ones are not read in one call."""
    status = Path("/proc/self/status")
    if status.exists():
        assert read_regular(status).startswith(b"Name:")
    monkeypatch.setattr(files, "_AT_ONCE", 100)
    (tmp_path / "a").write_bytes(b"abc" * 9000)
    assert read_regular(tmp_path / "a") == b"abc" * 9000
    with pytest.raises(OSError, match="more than 99 bytes"):
        read_regular(tmp_path / "a", 99)


def test_a_file_is_opened_by_one_module_and_written_by_two(tmp_path):
    """By the functions that are called, of this project."""
    visited = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            visited.append(Path(frame.f_code.co_filename).name)

    def modules(do):
        visited.clear()
        sys.setprofile(note)
        try:
            do()
        finally:
            sys.setprofile(None)
        return list(dict.fromkeys(visited))

    def write():
        with atomic_path(tmp_path / "a") as temporary:
            temporary.touch()

    assert modules(write) == ["files.py", "durable.py"]
    assert modules(lambda: open_regular(tmp_path / "a").close()) == ["files.py"]
    assert modules(lambda: open_buffered(tmp_path / "a").close()) == ["files.py"]


def listen(path):
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


KINDS = {
    "a named pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": listen,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_is_opened(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 bytes
    KINDS[kind](Path("x"))
    path = tmp_path / "x"
    for opener in (open_regular, open_buffered, read_regular, require_regular):
        with pytest.raises(BuildError) as caught:
            opener(path)
        assert_sentence(str(caught.value), path, kind)


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")
    with stops(BuildError):
        require_regular(tmp_path / "none")


def test_no_descriptor_stays_open(tmp_path):
    os.mkfifo(tmp_path / "x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with pytest.raises(BuildError):
            open_regular(tmp_path / "x")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_may_have_a_limit(tmp_path):
    (tmp_path / "a").write_bytes(b"123456")
    assert read_regular(tmp_path / "a", 6) == b"123456"
    with pytest.raises(OSError, match="it has more than 5 bytes") as caught:
        read_regular(tmp_path / "a", 5)
    assert caught.value.filename == str(tmp_path / "a")
