"""Whether a lock is held is known without waiting, and without changing anything."""

import os
import subprocess
import sys

import pytest

from builders.errors import BuildError
from builders.storage.store import Store, file_lock

HOLD = """
import sys, filelock
lock = filelock.FileLock(sys.argv[1])
lock.acquire()
print('held', flush=True)
sys.stdin.read()
"""


def test_a_lock_is_held_until_its_process_ends(tmp_path):
    path = tmp_path / "lock"
    assert not Store().is_locked(path) and not path.exists()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        before = path.stat()
        assert Store().is_locked(path)
        assert path.stat() == before
        holder.kill()
    assert not Store().is_locked(path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere")])
@pytest.mark.timeout(10)
def test_what_is_no_lock_file_is_not_held(tmp_path, make):
    make(tmp_path / "lock")
    assert not Store().is_locked(tmp_path / "lock")


def test_a_lock_is_given_to_nobody_else_and_given_back_also_after_an_error(tmp_path):
    path = tmp_path / "lock"
    with pytest.raises(ValueError, match="inside"), file_lock(path, "mine"):
        assert Store().is_locked(path)
        with pytest.raises(BuildError, match="somebody is at work"), file_lock(path, "somebody is at work"):
            raise AssertionError("the lock was given twice")
        assert Store().is_locked(path)  # still the first one's
        raise ValueError("inside")
    assert not Store().is_locked(path)
    with file_lock(path, ""):  # asking left nothing behind
        pass
