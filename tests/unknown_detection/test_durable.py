"""The order in which files are flushed and named, and what happens where they cannot be."""

import errno
import os
import subprocess
import sys
import threading

import click
import pytest
from click.testing import CliRunner

from tests.power import Disk
from unknown_detection.durable import NO_SYNC, finish, flush, flush_tree, make_folder, replacing, unflushed
from unknown_detection.help import no_sync_option

pytestmark = pytest.mark.usefixtures("flushed")


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "root").mkdir()
    disk = Disk(tmp_path / "root")
    with disk.watching():
        yield disk


def test_a_file_is_flushed_then_named_then_its_folder_is_flushed(disk):
    with replacing(disk.root / "a" / "file") as temporary:
        temporary.write_text("whole")
    assert disk.calls == [
        ("mkdir", "a"),
        ("fsync", "."),
        ("fsync", f"a/{temporary.name}"),
        ("replace", f"a/{temporary.name}", "a/file"),
        ("fsync", "a"),
    ]
    assert {cut.files.get("a/file") for cut in disk.cuts} == {None, b"whole"}


def test_a_folder_is_named_after_all_that_is_in_it_was_flushed(disk):
    (disk.root / ".new" / "inner").mkdir(parents=True)
    (disk.root / ".new" / "inner" / "file").write_text("1")
    disk.calls.clear()
    finish(disk.root / ".new", disk.root / "new")
    flushed = [("fsync", ".new"), ("fsync", ".new/inner"), ("fsync", ".new/inner/file")]  # in any order
    assert [*sorted(disk.calls[:3]), *disk.calls[3:]] == [*flushed, ("replace", ".new", "new"), ("fsync", ".")]


def test_files_of_a_folder_are_flushed_several_at_a_time(tmp_path, monkeypatch):
    """Each call waits for the four others, as a journal lets many wait for one commit; the first alone would fail."""
    for number in range(4):
        (tmp_path / f"file-{number}").write_text("1")
    meeting = threading.Barrier(5, timeout=20)  # the files and their folder
    monkeypatch.setattr(os, "fsync", lambda _: meeting.wait())
    flush_tree(tmp_path)


def test_a_link_to_nothing_is_no_file_to_flush(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    flush_tree(tmp_path)


def test_each_new_folder_is_flushed_into_the_one_above(disk):
    make_folder(disk.root / "a" / "b")
    make_folder(disk.root / "a" / "b")
    assert disk.calls == [("mkdir", "a"), ("fsync", "."), ("mkdir", "a/b"), ("fsync", "a")]


def test_a_disk_that_cannot_flush_leaves_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("old")

    def failing(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output"), replacing(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "old")]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_only_folders_may_lack_a_flush(number, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("1")

    def failing(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", failing)
    flush(tmp_path)
    with pytest.raises(OSError, match=re_escaped(number)):
        flush(tmp_path / "file")


def re_escaped(number):
    return os.strerror(number).replace("(", r"\(")


def test_unflushed_holds_for_processes_that_are_started_and_ends(disk):
    command = [sys.executable, "-c", f"import os; print(os.environ.get({NO_SYNC!r}))"]
    with unflushed():
        with replacing(disk.root / "file") as temporary:
            temporary.write_text("1")
        flush_tree(disk.root)
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"
    assert disk.calls == [("replace", temporary.name, "file")]
    assert NO_SYNC not in os.environ
    flush(disk.root)
    assert disk.calls[-1] == ("fsync", ".")


def test_no_sync_holds_for_one_command(monkeypatch, tmp_path):
    monkeypatch.delenv(NO_SYNC, raising=False)

    @click.command()
    @no_sync_option
    def command():
        click.echo(os.environ.get(NO_SYNC, "unset"))

    assert CliRunner().invoke(command, ["--no-sync"]).output == "1\n"
    assert CliRunner().invoke(command, []).output == "unset\n"
    assert NO_SYNC not in os.environ


FULL = """
import pathlib, resource, sys
from unknown_detection.durable import replacing
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
path = pathlib.Path(sys.argv[1])
try:
    with replacing(path) as temporary:
        temporary.write_bytes(bytes(2000))
except OSError as error:
    print(error.filename)
"""


def test_a_disk_that_takes_no_more_is_said_of_the_file(tmp_path):
    """The system names no file where `write` fails, as for a full quota; here for the limit of a file's size."""
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "file")], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'file'}\n", "")
    assert list(tmp_path.iterdir()) == []
