"""A copy of a folder before a rename is what a real kill there leaves."""

import inspect

import pytest

from tests.killing import killed_at_rename, tree, watched_at_renames


def write(folder):
    """Two files that are flushed in part and renamed; the rest of the second is in memory at the rename; a third."""
    folder.mkdir()
    (folder / "first.tmp").write_text("first")
    (folder / "first.tmp").replace(folder / "first")
    opened = (folder / "second.tmp").open("w")
    opened.write("on the disk, ")
    opened.flush()
    opened.write("in memory")
    (folder / "second.tmp").replace(folder / "second")
    opened.close()
    (folder / "third.tmp").write_text("third")
    (folder / "third.tmp").replace(folder / "third")


LEFT = {
    1: {"first.tmp": b"first"},
    2: {"first": b"first", "second.tmp": b"on the disk, "},
    3: {"first": b"first", "second": b"on the disk, in memory", "third.tmp": b"third"},
}


def test_a_copy_before_a_rename_has_what_was_handed_to_the_system(tmp_path):
    out = tmp_path / "out"
    watched = watched_at_renames(LEFT, out, lambda: write(out))
    assert watched.renames == 3
    for point, files in LEFT.items():
        assert tree(watched.as_killed(point)) == files


@pytest.mark.parametrize("point", LEFT)
def test_a_real_kill_leaves_the_same(point, tmp_path):
    killed_at_rename(point, f"{inspect.getsource(write)}\nwrite(Path(sys.argv[2]))", tmp_path / "out")
    assert tree(tmp_path / "out") == LEFT[point]
