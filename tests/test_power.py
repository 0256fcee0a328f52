"""The states that a power cut may leave, derived by hand from what POSIX promises of fsync and rename."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.power import Disk

ROOT = Path(__file__).parents[1]


def left(disk):
    """The files of every state, without temporary ones."""
    states = {
        tuple(sorted((path, data) for path, data in cut.files.items() if not Path(path).name.startswith(".")))
        for cut in disk.cuts
    }
    return sorted(states)


def written(folder, *, flushed, named):
    (folder / ".new.tmp").write_bytes(b"12")
    if flushed:
        with (folder / ".new.tmp").open("rb") as opened:
            os.fsync(opened.fileno())
    (folder / ".new.tmp").replace(folder / "file")
    if named:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


@pytest.mark.parametrize("named", [False, True])
def test_a_flushed_file_is_the_old_or_the_new_one(named, tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with (disk := Disk(tmp_path)).watching():
        written(tmp_path, flushed=True, named=named)
    assert left(disk) == [(("file", b"12"),), (("file", b"old"),)]
    assert disk.cuts[-1].files["file"] == b"12"


def test_a_file_that_was_not_flushed_may_have_its_name_and_none_of_its_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with (disk := Disk(tmp_path)).watching():
        written(tmp_path, flushed=False, named=True)
    assert left(disk) == [(("file", data),) for data in (b"", b"\0\0", b"1", b"12", b"old")]


def test_names_that_were_not_flushed_come_in_any_order_and_with_their_folder(tmp_path):
    with (disk := Disk(tmp_path)).watching():
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            written(tmp_path / name, flushed=True, named=True)
    a, b = ("a/file", b"12"), ("b/file", b"12")
    assert left(disk) == [(), (a,), (a, b), (b,)]


def test_a_name_that_was_removed_may_be_back(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"1")
    with (disk := Disk(tmp_path)).watching():
        (tmp_path / "a").unlink()
        (tmp_path / "b").unlink()
    a, b = ("a", b"1"), ("b", b"1")
    assert left(disk) == [(), (a,), (a, b), (b,)]


def test_a_state_is_put_as_it_is(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with (disk := Disk(folder)).watching():
        (folder / "inner").mkdir()
        written(folder / "inner", flushed=True, named=True)
    for cut in disk.cuts:
        cut.put(folder)
        there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
        assert {name: path.read_bytes() for name, path in there.items() if path.is_file()} == cut.files
        assert {name for name, path in there.items() if path.is_dir()} == set(cut.folders)


# A table that pyarrow writes, whose system calls no patch of Python sees.
_WRITES = """
import sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from builders.storage.files import atomic_path
from tests.power import Disk
with (disk := Disk(sys.argv[1])).watching():
    for name in ("one", "two"):
        with atomic_path(Path(sys.argv[1], "inner", name)) as temporary:
            pq.write_table(pa.table({"x": [1, 2]}), temporary)
for name, *paths in disk.calls:
    print(name, *paths)
"""


def _whole_lines(trace):
    """The lines of a trace, with a call that another thread's line interrupted as one line, where it returned."""
    begun = {}
    for line in trace.splitlines():
        process, call = line.split(maxsplit=1)
        if call.endswith("<unfinished ...>"):
            begun[process] = call.removesuffix("<unfinished ...>")
        elif resumed := re.match(r"<\.\.\. \w+ resumed>", call):
            yield begun.pop(process) + call[resumed.end() :]
        else:
            yield call


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_calls_are_those_that_the_system_sees(tmp_path):
    folder, trace = tmp_path / "folder", tmp_path / "trace"
    folder.mkdir()
    calls = "fsync,fdatasync,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir"
    tracing = ["strace", "-f", "-y", "-e", f"trace={calls}", "-e", "signal=none", "-o", trace]
    traced = subprocess.run(
        [*tracing, sys.executable, "-c", _WRITES, folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if "ptrace" in traced.stderr.lower() or "not permitted" in traced.stderr.lower():
        pytest.skip("strace may not trace here")
    assert traced.returncode == 0, traced.stderr
    seen = []
    for line in _whole_lines(trace.read_text()):
        if str(folder) in line and line.rstrip().endswith("= 0"):
            name = re.search(r"(\w+)\(", line)[1].replace("renameat2", "rename").replace("at", "")
            paths = re.findall(r'(?:<|")(' + re.escape(str(folder)) + r'[^">]*)', line)
            seen.append((name, *(os.path.relpath(path, folder) for path in paths)))
    told = [tuple(line.split()) for line in traced.stdout.splitlines()]
    assert seen == [(name.replace("replace", "rename"), *paths) for name, *paths in told]
    assert [name for name, *_ in seen] == ["mkdir", "fsync", *["fsync", "rename", "fsync"] * 2]
