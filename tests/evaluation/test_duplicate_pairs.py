"""A release's table of duplicates: read once, from a folder or the Hub, and refused where it is of another release."""

import pyarrow.parquet as pq
import pytest

from tests.evaluation.duplicates_release import PAIRS, make_release, pairs_table, put_entry
from tests.evaluation.refusals import refusal
from tests.hf_scripts.samples import REPO
from unknown_detection.evaluation.releases import load


@pytest.fixture
def root(tmp_path):
    return make_release(tmp_path / "release")


def duplicates(root):
    """The flags of the rows of the config `imagenet`, by id."""
    rows = load(str(root)).index(["imagenet"])
    return sorted(rows["id"][rows["duplicate"]])


def of_table(root):
    """The refusal of a release's table of duplicates."""
    return refusal(lambda: load(str(root)).duplicates())


def test_rows_are_marked_on_either_side_inside_a_split_and_across_configs(root):
    release = load(str(root))
    assert release.duplicates() == pairs_table(PAIRS)
    assert duplicates(root) == ["n0", "t0", "t2"]
    train = release.index(["imagenet-train"])
    assert train["id"][train["duplicate"]].tolist() == ["r0"]


def test_a_release_without_the_table_says_of_no_row_that_it_is_a_duplicate(tmp_path):
    assert duplicates(make_release(tmp_path / "release", pairs=[])) == []
    assert "duplicate" not in load(str(make_release(tmp_path / "release", pairs=None))).index(["imagenet"])


def test_a_table_that_was_changed_is_refused(root):
    pq.write_table(pairs_table(PAIRS[1:]), root / "duplicates" / "pairs.parquet")
    assert "its SHA-256 is not the one" in of_table(root)
    (root / "duplicates" / "pairs.parquet").unlink()
    assert "duplicates/pairs.parquet: No such file or directory" in of_table(root)


def test_a_file_that_is_no_table_is_refused(root):
    (root / "duplicates" / "pairs.parquet").write_bytes(b"PAR1")
    put_entry(root, rows=2)
    assert "Cannot read duplicates/pairs.parquet of " in of_table(root)


@pytest.fixture
def published(root, hub, api, only_loopback):
    """The release on the stand-in, tagged v1.0.0."""
    hub.create(REPO)
    hub.commit(REPO, {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.*")})
    hub.tag(REPO, "v1.0.0")
    return hub


def test_the_table_of_a_tag_on_the_hub_is_read_also_once_the_branch_has_moved_on(published, root):
    make_release(root, pairs=PAIRS[:1])
    moved = ["manifest.json", "duplicates/pairs.parquet"]
    published.commit(REPO, {name: (root / name).read_bytes() for name in moved})
    assert load(REPO, "v1.0.0").duplicates() == pairs_table(PAIRS)
    newest = load(REPO)
    assert newest.duplicates() == pairs_table(PAIRS[:1])
    rows = newest.index(["imagenet"])
    assert rows["id"][rows["duplicate"]].tolist() == ["t0", "t2"]


def test_a_table_that_the_hub_lacks_or_changed_is_refused(published):
    published.commit(REPO, {"duplicates/pairs.parquet": b"PAR1"})
    assert "its SHA-256 is not the one" in refusal(load(REPO).duplicates)
    published.commit(REPO, {"duplicates/pairs.parquet": None})
    assert "has no duplicates/pairs.parquet, although its manifest names it" in refusal(load(REPO).duplicates)
