"""Tags that name another commit than the one that published their version."""

import pytest

from builders.errors import BuildError
from builders.hub.repository import Repository
from hf_scripts.publish.remote import check_moved_tags
from tests.hf_scripts.samples import REPO, make_release
from tests.sentences import assert_sentence


@pytest.fixture
def repository(push, hub, tmp_path):
    """Two versions, with a commit of somebody else between them and one after them."""
    make_release(tmp_path / "one", {"bench/test": range(4)})
    make_release(tmp_path / "two", {"bench/near_ood": range(4)})
    assert push("one").code == 0
    assert push("two", tag="v1.1.0").code == 0
    hub.tag(REPO, "latest")
    return Repository(REPO, lambda line: None)


def test_tags_as_they_were_published_and_others_that_nobody_published_here(repository, hub):
    check_moved_tags(repository, repository.tags(), allowed=False, log=pytest.fail)
    check_moved_tags(repository, {}, allowed=False, log=pytest.fail)
    hub.tag(REPO, "latest", "v1.0.0")
    hub.tag(REPO, "v0.1.0", "v1.0.0")
    check_moved_tags(repository, repository.tags(), allowed=False, log=pytest.fail)


def test_a_tag_that_was_moved(repository, hub):
    first, second = (repository.tags()[tag] for tag in ("v1.0.0", "v1.1.0"))
    for place in (second, hub.commits(REPO)[-1].id):
        hub.tag(REPO, "v1.0.0", place)
        tags = repository.tags()
        with pytest.raises(BuildError) as caught:
            check_moved_tags(repository, tags, allowed=False, log=pytest.fail)
        assert_sentence(str(caught.value), "v1.0.0", "org/name", place[:12], first[:12], "--allow-moved-tags")
    lines = []
    check_moved_tags(repository, tags, allowed=True, log=lines.append)
    assert len(lines) == 1 and lines[0].startswith("note: the tag v1.0.0")


def test_push_refuses_beside_a_moved_tag(push, repository, hub):
    """A moved tag of this version, and one of another."""
    before = hub.tags(REPO)
    hub.tag(REPO, "v1.0.0", hub.commits(REPO)[-1].id)
    for tag in ("v1.0.0", "v1.2.0"):
        assert "v1.0.0 was published as commit" in push("two", tag=tag).error
    ran = push("two", "--allow-moved-tags", tag="v1.1.0")
    assert ran.code == 0 and any("note: the tag v1.0.0 of org/name" in line for line in ran.out)
    assert hub.tags(REPO)["v1.1.0"] == before["v1.1.0"]
