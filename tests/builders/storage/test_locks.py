"""Whether a lock is held is known without waiting, and without changing anything."""

import errno
import os
import subprocess
import sys

import pytest

from builders import imagenet_benchmark
from builders.errors import BuildError
from builders.storage.locks import file_lock, is_locked
from builders.storage.scratch import scratch_folder
from hf_scripts import verify
from tests.sentences import assert_sentence, stops

HOLD = """
import sys, filelock
lock = filelock.FileLock(sys.argv[1])
lock.acquire()
print('held', flush=True)
sys.stdin.read()
"""


def test_a_lock_is_held_until_its_process_ends(tmp_path):
    path = tmp_path / "lock"
    assert not is_locked(path) and not path.exists()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        before = path.stat()
        assert is_locked(path)
        assert path.stat() == before
        holder.kill()
    assert not is_locked(path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere")])
@pytest.mark.timeout(10)
def test_what_is_no_lock_file_is_not_held(tmp_path, make):
    make(tmp_path / "lock")
    assert not is_locked(tmp_path / "lock")


def test_a_lock_is_given_to_nobody_else_and_given_back_also_after_an_error(tmp_path):
    path = tmp_path / "lock"
    with pytest.raises(ValueError, match="inside"), file_lock(path, "mine"):
        assert is_locked(path)
        with stops(BuildError), file_lock(path, "somebody is at work"):
            raise AssertionError("the lock was given twice")
        assert is_locked(path)  # still the first one's
        raise ValueError("inside")
    assert not is_locked(path)
    with file_lock(path, ""):  # asking left nothing behind
        pass


@pytest.fixture
def disk(monkeypatch):
    """Lets `flock` fail as it does on a network disk; no such disk can be mounted here."""

    def refuse(number):
        def flock(*_):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("fcntl.flock", flock)

    return refuse


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_disk_that_refuses_a_lock_is_named_with_the_cause_and_a_next_step(
    disk, demo, tmp_path, capsys, monkeypatch, number
):
    """The errors of flock(2), of nfs(5) without a lock service, and of a disk that refuses all writing.

    A leftover in the temporary folder, whose lock cannot be tried either, is left there.
    """
    leftover = tmp_path / "unknown-detection-mp-killed"
    leftover.mkdir()
    (leftover / ".lock").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    disk(number)
    reason = os.strerror(number)[:1].lower() + os.strerror(number)[1:]
    unlockable = number in (errno.ENOLCK, errno.EOPNOTSUPP)
    doing = "Cannot lock" if unlockable else "Cannot write the release:"
    then = "Some network disks have no locks: choose a folder on a disk" if unlockable else "Fix this and run"
    splits = "imagenet/far_ood_caltech45"
    flags = ["--caltech256", str(demo["caltech256"]), "--splits", splits, "--workers", "1", "--quiet"]
    out = tmp_path / "out"
    assert imagenet_benchmark.main([*flags, "--allow-partial", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert f"{doing} {out / '.state/lock'}: {reason}. {then}" in said and said.count("\n") == 1
    assert not is_locked(out / ".state/lock")
    assert not (out / "manifest.json").exists() and leftover.exists()


def test_a_temporary_folder_without_locks_is_named(disk, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    disk(errno.ENOLCK)
    with pytest.raises(BuildError, match=r"no locks available.*let TMPDIR name a folder"), scratch_folder("test"):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    """Commands say so of the folder, as of any other file that they cannot write."""
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as refused, file_lock(tmp_path / "file/.state/lock", "busy"):
        raise AssertionError
    assert refused.value.filename == str(tmp_path / "file/.state")


NO_FLOCK = """
import errno, fcntl, os, signal, sys
def flock(*_):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
fcntl.flock = flock
"""


def test_a_soft_lock_is_seen_and_taken_over_after_a_kill(disk, tmp_path, recwarn):
    """Lustre without the mount option `flock` has no such call, and filelock writes its owner into the file."""
    disk(errno.ENOSYS)
    path = tmp_path / "lock"
    assert not is_locked(path) and not path.exists()
    with file_lock(path, "mine"):
        assert is_locked(path) and path.read_text()
        with stops(BuildError), file_lock(path, "somebody is at work"):
            raise AssertionError("the lock was given twice")
    assert not is_locked(path)
    held = [sys.executable, "-W", "ignore", "-c", NO_FLOCK + HOLD, str(path)]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        content = path.read_text()
        assert is_locked(path)
        assert path.read_text() == content
        with stops(BuildError), file_lock(path, "it is taken"):
            raise AssertionError("the lock was given twice")
        holder.kill()
    assert not is_locked(path)
    assert path.read_text() == content  # whoever asks writes nothing
    path.write_text(content.replace(f"{holder.pid}\n", f"{holder.pid}\nanother-", 1))
    assert is_locked(path)  # on another machine that process may run
    path.write_text(content)
    with file_lock(path, "busy"):
        pass
    assert not recwarn.list


def test_verify_sees_a_build_on_a_disk_with_soft_locks(disk, imagenet_release, tmp_path, capsys):
    disk(errno.ENOSYS)
    (tmp_path / "manifest.json").write_bytes((imagenet_release / "manifest.json").read_bytes())
    with file_lock(tmp_path / ".state/lock", "busy"):
        assert verify.main([str(tmp_path), "--workers", "1"]) == 2
    assert_sentence(capsys.readouterr().err, tmp_path)
