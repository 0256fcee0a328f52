"""Scratch folders go when their block ends, and those of killed processes when the next one begins."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.errors import BuildError
from builders.storage.scratch import scratch_folder

KILLED = """
import os, pathlib, signal
from builders.storage.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "sub").mkdir()
    (folder / "sub/download").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def killed(temporary):
    before = set(temporary.iterdir())
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[3])}
    assert subprocess.run([sys.executable, "-c", KILLED], env=environment).returncode == -9
    (leftover,) = set(temporary.iterdir()) - before
    return leftover


def test_a_folder_is_deleted_with_all_that_is_in_it(temporary):
    for error in (None, ZeroDivisionError):
        with pytest.raises(error) if error else scratch_folder("other"), scratch_folder("test") as folder:
            assert list(folder.iterdir()) == [] and temporary in folder.parents
            (folder / "sub").mkdir()
            (folder / "sub/file").write_text("text")
            if error:
                raise error
        assert list(temporary.iterdir()) == []


def test_a_folder_of_a_killed_process_is_deleted_by_the_next(temporary):
    leftover = killed(temporary)
    assert (leftover / "files/sub/download").exists()
    with scratch_folder("other"):
        assert leftover.exists()
    with scratch_folder("test"):
        assert not leftover.exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("refused", ["a folder", "its lock", "what is in it"])
def test_a_disk_that_refuses_one_is_a_sentence_and_leaves_nothing(temporary, monkeypatch, refused):
    """Found by the soak: a push ended with a traceback."""

    def refusing(call):
        def refuse(path, *arguments, **keywords):
            place = {"files": "what is in it", ".lock": "its lock"}.get(Path(path).name, "a folder")
            if place == refused:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            return call(path, *arguments, **keywords)

        return refuse

    sentence = r"^Cannot make a temporary folder: /.*: no space left on device\. Fix this"
    with monkeypatch.context() as patch, pytest.raises(BuildError, match=sentence):
        patch.setattr(os, "mkdir", refusing(os.mkdir))
        if refused == "its lock":
            patch.setattr(os, "open", refusing(os.open))
        with scratch_folder("test"):
            pass
    assert list(temporary.iterdir()) == []


def test_nothing_else_is_deleted(temporary):
    """Not a folder in use, not what has such a name and no lock, nor what a link names, nor another user's."""
    with scratch_folder("test") as first, scratch_folder("test") as second:
        assert first.is_dir() and second.is_dir() and first != second
    leftover = killed(temporary)
    (temporary / "unknown-detection-test-mine").mkdir()
    (temporary / "unknown-detection-test-file").write_text("mine")
    victim = temporary / "victim"
    leftover.rename(victim)
    (temporary / "unknown-detection-test-link").symlink_to(victim)
    planted = temporary / "unknown-detection-test-planted"
    planted.mkdir()
    (planted / ".lock").symlink_to(victim / "files/sub/download")
    if os.getuid() == 0:
        theirs = killed(temporary)
        os.chown(theirs, 12345, 12345)
    before = sorted(temporary.iterdir())
    with scratch_folder("test"):
        pass
    assert sorted(temporary.iterdir()) == before
    assert (victim / "files/sub/download").read_text() == "half"
