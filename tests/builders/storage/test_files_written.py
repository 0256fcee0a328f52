"""Files are written completely or not at all, and never outside their folder, whatever a name or a link says."""

from pathlib import Path

import pytest

from builders.errors import BuildError
from builders.release.layout import CARD, RECORDS, Layout
from builders.storage.files import atomic_path, write_text
from builders.storage.paths import inside


def test_a_file_is_complete_or_does_not_exist(tmp_path):
    path = tmp_path / "folder" / "file"
    with pytest.raises(ZeroDivisionError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert list(path.parent.iterdir()) == []
    write_text(path, "one\ntwo\n")
    assert path.read_bytes() == b"one\ntwo\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_link_is_replaced_and_not_the_file_that_it_names(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "release").mkdir()
    path = Layout(tmp_path / "release").inside(CARD)
    path.symlink_to(tmp_path / "victim")
    write_text(path, "a card")
    assert (tmp_path / "victim").read_text() == "mine"
    assert path.read_text() == "a card" and not path.is_symlink()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/tmp/victim", "", ".", "..", "a/.."])
def test_names_that_lead_out_of_the_folder(tmp_path, path):
    with pytest.raises(BuildError, match="does not lie inside"):
        inside(tmp_path / "release", path)


def test_names_inside(tmp_path):
    """The folder itself may be a link, need not exist yet, and may be relative."""
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    for root in (tmp_path / "root", tmp_path / "new", Path("release")):
        assert inside(root, "a/../b/c") == root / "a/../b/c"
        assert inside(root, "file") == root / "file"


def test_a_layout_gives_only_paths_inside_its_folder(tmp_path):
    layout = Layout(tmp_path / "release")
    up = "../../../../x"
    for path in (
        lambda: layout.shard("data", f"{up}/test", 0, 1),
        lambda: layout.shard("data", f"bench/{up}", 0, 1),
        lambda: layout.index(f"{up}/test"),
        lambda: layout.index(f"bench/{up}"),
        lambda: layout.excluded(up),
        lambda: layout.shard(RECORDS, f"{up}/test", 0, 1),
        lambda: layout.plan(f"bench/{up}"),
        lambda: layout.pixels(up),
    ):
        with pytest.raises(BuildError, match="does not lie inside"):
            path()
    assert layout.index("/tmp/victim/test") == tmp_path / "release/index/tmp/victim/test.parquet"


def test_a_layout_refuses_folders_that_are_links_to_others(tmp_path):
    layout = Layout(tmp_path / "release")
    (tmp_path / "victim").mkdir()
    (tmp_path / "release/index").mkdir(parents=True)
    (tmp_path / "release/index/bench").symlink_to(tmp_path / "victim")
    (tmp_path / "release/excluded").symlink_to(tmp_path / "victim")
    (tmp_path / "release/duplicates").symlink_to("duplicates")
    for path in (lambda: layout.index("bench/test"), lambda: layout.excluded("bench")):
        with pytest.raises(BuildError, match=f"leads to {tmp_path}/victim"):
            path()
    # A link in a circle names nothing, and creating the folder fails.
    with pytest.raises(OSError, match="duplicates"):
        write_text(layout.duplicates, "")
    assert list((tmp_path / "victim").iterdir()) == []
