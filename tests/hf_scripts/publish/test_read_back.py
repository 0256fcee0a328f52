"""What a tag names is compared with what was to be published, and each difference is said."""

import pytest

from builders.errors import BuildError
from builders.hub.repository import Repository
from hf_scripts.publish.remote import read_back
from tests.hf_scripts.samples import REPO, write_revision
from tests.hub.samples import BINARY
from tests.sentences import stops

SHARD = "data/bench/test-00000-of-00001.parquet"


@pytest.fixture
def published(push, hub, release, tmp_path):
    """The release as published, in a folder; and a function that reads its tag back."""
    assert push("release").code == 0
    folder = write_revision(hub, tmp_path / "published")

    def read():
        commit = hub.tags(REPO)["v1.0.0"]
        return read_back(Repository(REPO, print), "v1.0.0", commit, folder / "manifest.json", tmp_path / "back")

    return read


def spoil(hub, changes):
    """Move the tag to a commit with changes."""
    hub.commit(REPO, changes)
    hub.tag(REPO, "v1.0.0")


def test_a_whole_release(published, hub):
    before = len(hub.asked("resolve"))
    assert published() == 13
    asked = {request.path.rpartition("/")[2] for request in hub.asked("resolve")[before:] if request.method == "GET"}
    # Those of which the Hub gives no SHA-256.
    assert asked == {"README.md", "croissant.json", "LICENSE.md", "CHANGELOG.md", "bench.csv", "bench-train.csv"}


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({SHARD: None}, f"{SHARD}: the file is missing"),
        ({SHARD: BINARY}, f"{SHARD}: has "),
        ({"index/more.parquet": BINARY}, "index/more.parquet: manifest.json does not list this file"),
        ({"manifest.json": b"{}\n"}, "manifest.json is missing, or is not the published one"),
        ({"excluded/bench.csv": b"split\n"}, "excluded/bench.csv: has 6 bytes, not "),
        ({SHARD: flipped}, f"{SHARD}: has the SHA-256 "),
        ({"excluded/bench.csv": flipped}, "excluded/bench.csv: has the SHA-256 "),
    ],
    ids=["missing", "other size", "stray", "manifest", "small", "other bytes", "other text"],
)
def test_a_difference(published, hub, changes, sentence):
    spoil(hub, {path: data(hub.read(REPO, path)) if callable(data) else data for path, data in changes.items()})
    with pytest.raises(BuildError) as caught:
        published()
    assert f"does not match its manifest.json: {sentence}" in str(caught.value)


def test_a_tag_of_another_commit(published, hub, tmp_path):
    hub.tag(REPO, "v1.0.0", hub.commits(REPO)[1].id)
    with stops(BuildError, "v1.0.0", "org/name"):
        commit = hub.commits(REPO)[0].id
        manifest = tmp_path / "published/manifest.json"
        read_back(Repository(REPO, print), "v1.0.0", commit, manifest, tmp_path / "back")
