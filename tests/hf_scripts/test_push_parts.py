"""A release of more files than the Hub advises for a commit: parts on the branch of a pull request, and one merge."""

import json
import signal
import time

import datasets
import pytest

from builders.hub import pull_request
from hf_scripts import push as push_command
from hf_scripts import verify
from tests.hf_scripts.samples import REPO, contents, make_release, write_revision
from tests.hf_scripts.test_push_process import ended, pushed, start
from tests.hub.server import Hub
from tests.sentences import assert_sentence

PART = 10
"""Files of a part in these tests; slow is one that pushes parts as large as those of users."""

SHARDS = 2 * PART + 1
"""So that there are three parts."""

SMALL_PARTS = f"""
import sys
from builders.hub import pull_request
pull_request.PART = {PART}
from hf_scripts import push
sys.exit(push.main(sys.argv[1:]))
"""


def release_of(shards, folder):
    """A release of so many shards of one row each."""
    return make_release(folder / "large", {"bench/train": range(shards)}, shards=shards)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A release of three small parts. Read only."""
    return release_of(SHARDS, tmp_path_factory.mktemp("large"))


def with_small_parts(patch, part=PART):
    for module in ("builders.hub.pull_request", "hf_scripts.publish.commit"):
        patch.setattr(f"{module}.PART", part)


@pytest.fixture
def small_parts(monkeypatch):
    with_small_parts(monkeypatch)


@pytest.fixture
def linked(large, small_parts, tmp_path):
    """The release under the name `large`."""
    (tmp_path / "large").symlink_to(large)


def on_main(hub):
    return [commit.title for commit in hub.commits(REPO)]


@pytest.mark.parametrize("part", [PART, pytest.param(pull_request.PART, marks=pytest.mark.slow)])
def test_it_becomes_visible_at_once(push, hub, api, tmp_path, monkeypatch, part):
    """Main has nothing of it while parts arrive, then all of it in one commit that has the tag."""
    with_small_parts(monkeypatch, part)
    shards, seen = 2 * part + 1, []
    release_of(shards, tmp_path)
    for step, times in (("commit", 3), ("merge_pull_request", 1)):
        hub.faults.add("race", step, times=times, callback=lambda: seen.append((on_main(hub), hub.files(REPO))))
    ran = push("large")
    assert ran.code == 0
    assert any("in a pull request of 3 commits and one merge;" in line for line in ran.out)
    assert [request.status for request in hub.asked("commit")] == [200] * 3
    assert seen == [(["initial commit"], {})] * 4
    assert on_main(hub) == ["Publish v1.0.0 (#1)", "initial commit"]
    assert hub.tags(REPO) == {"v1.0.0": hub.commits(REPO)[0].id}
    parts = hub.commits(REPO, "refs/pr/1")
    assert [commit.title for commit in parts] == ["Publish v1.0.0, a part"] * 3 + ["initial commit"]
    sizes = [len(commit.files) - 1 for commit in reversed(parts)]
    assert sizes == [0, part, 2 * part, shards + 7]
    assert verify.main([str(write_revision(hub, tmp_path / "there", "v1.0.0")), "--workers", "1"]) == 0
    rows = datasets.load_dataset(REPO, "bench", split="train", revision="v1.0.0")
    assert rows["id"] == [f"source/train/{number}.png" for number in range(shards)]


def test_the_next_version_knows_the_merged_one(push, hub, linked, more):
    assert push("large").code == 0
    assert push("large").code == 0  # which has it already
    ran = push("more", tag="v1.1.0")
    assert (ran.code, on_main(hub)[0]) == (0, "Publish v1.1.0")
    assert not any(line.startswith("note: the tag") for line in ran.out)
    hub.tag(REPO, "v1.0.0", hub.commits(REPO)[-1].id)
    assert "v1.0.0 was published as commit" in push("more", tag="v1.2.0").error


@pytest.fixture(scope="module")
def undisturbed(large, tmp_path_factory):
    with Hub() as hub, pytest.MonkeyPatch.context() as patch:
        with_small_parts(patch)
        code, _, err = pushed(hub, large, tmp_path_factory.mktemp("home"))
        assert (code, err) == (0, "")
        return contents(hub, "v1.0.0")


# Where a part is being uploaded, what is killed is what `test_push_process.py` kills.
@pytest.mark.parametrize(
    ("step", "passing"),
    [("commit", 1), pytest.param("lfs_put", 3 * PART // 2, marks=pytest.mark.slow), ("merge_pull_request", 0)],
)
def test_a_publisher_of_parts_that_is_killed(large, undisturbed, small_parts, tmp_path, only_loopback, step, passing):
    """The next run goes on with the same pull request, and sends nothing again that had arrived."""
    with Hub() as hub:
        hub.slow(step, 3600, skip=passing)
        process = start(hub, large, tmp_path / "home", module=("-c", SMALL_PARTS))
        while len(hub.asked(step)) <= passing and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert ended(process)[0] == -signal.SIGKILL
        assert (hub.tags(REPO), on_main(hub), hub.files(REPO)) == ({}, ["initial commit"], {})
        code, _, err = pushed(hub, large, tmp_path / "home")
        assert (code, err) == (0, "")
        assert contents(hub, "v1.0.0") == undisturbed
        assert all(count == 1 for count in hub.uploads().values())
        assert on_main(hub) == ["Publish v1.0.0 (#1)", "initial commit"]


@pytest.mark.parametrize("step", ["create_discussion", "commit", "change_status", "merge_pull_request"])
def test_an_answer_that_is_lost(push, hub, linked, naps, step):
    hub.lose_response(step)
    assert push("large").code == 0
    assert len(hub.files(REPO, "v1.0.0")) == SHARDS + 7
    assert (len(hub.repos[REPO].pulls), len(hub.commits(REPO))) == (1, 2)


@pytest.mark.parametrize("step", ["commit", "merge_pull_request"])
def test_somebody_else_commits_meanwhile(push, hub, linked, step):
    """Before the merge nothing is merged; in the moment of the merge, the Hub merges both and nothing is tagged."""
    theirs = {"README.md": b"---\nlicense: mit\n---\n"} if step == "commit" else {"notes.md": b"# Notes\n"}
    hub.faults.add("race", step, callback=lambda: hub.commit(REPO, theirs))
    assert_sentence(push("large").error, "org/name", "v1.0.0 was not published")
    assert hub.tags(REPO) == {}
    assert hub.repos[REPO].pulls[0].status == ("closed" if step == "commit" else "merged")
    hub.commit(REPO, dict.fromkeys(theirs))  # they take it back
    assert push("large").code == 0
    assert hub.tags(REPO) == {"v1.0.0": hub.commits(REPO)[0].id}
    assert all(count == 1 for count in hub.uploads().values())


def test_somebody_else_commits_to_the_branch(push, hub, linked):
    """Nothing of theirs is merged; a file of theirs in the place of one of the release is replaced."""
    shard = f"data/bench/train-00000-of-{SHARDS:05}.parquet"
    changes = {"notes.md": b"# Notes\n", shard: b"theirs"}
    hub.race(lambda: hub.commit(REPO, changes, branch="refs/pr/1"), nth=2)
    assert_sentence(push("large").error, "org/name", "v1.0.0 was not published")
    assert (hub.tags(REPO), on_main(hub), hub.repos[REPO].pulls[0].status) == ({}, ["initial commit"], "closed")
    hub.race(lambda: hub.commit(REPO, {shard: b"theirs"}, branch="refs/pr/2"), nth=2)
    assert push("large").code == 0
    assert on_main(hub) == ["Publish v1.0.0 (#2)", "initial commit"]


@pytest.mark.parametrize("step", ["commit", "merge_pull_request"])
def test_another_run_of_the_same_account_is_quicker(push, hub, linked, step):
    """Both fill one pull request, and the first merges it."""
    begun = []

    def other():
        if not begun:
            begun.append(step)
            assert push_command.main(["large", "--repo", REPO, "--tag", "v1.0.0", "--workers", "1"]) == 0

    hub.faults.add("race", step, callback=other)
    assert push("large").code == 0
    assert (begun, on_main(hub)) == ([step], ["Publish v1.0.0 (#1)", "initial commit"])
    assert hub.tags(REPO) == {"v1.0.0": hub.commits(REPO)[0].id}


def test_a_version_is_tagged_meanwhile(push, hub, linked):
    assert push("large", "--splits", "bench/train", "--index-only", tag="v0.1.0").code == 0
    head = hub.commits(REPO)[0].id
    hub.race(lambda: hub.tag(REPO, "v0.2.0", head), nth=2)
    assert_sentence(push("large", tag="v1.0.0").error, "org/name", "v1.0.0 was not published")
    assert (hub.commits(REPO)[0].id, sorted(hub.tags(REPO))) == (head, ["v0.1.0", "v0.2.0"])


def test_a_release_that_is_built_anew_after_a_kill(push, hub, linked, tmp_path):
    hub.fail("merge_pull_request", status=403)
    assert_sentence(push("large").error, "org/name", "403")
    make_release(tmp_path / "anew", {"bench/train": range(SHARDS)}, shards=SHARDS // 2)
    assert push("anew").code == 0
    assert [pull.status for pull in hub.repos[REPO].pulls] == ["closed", "merged"]
    assert len(hub.files(REPO)) == SHARDS // 2 + 7


def test_a_pull_request_of_somebody_else_is_left_alone(push, hub, linked, api):
    hub.create(REPO)
    stranger = hub.add_user("stranger")
    request = api.create_pull_request(REPO, "Publish v1.0.0", repo_type="dataset", token=stranger)
    assert push("large").code == 0
    assert (request.num, hub.repos[REPO].pulls[0].status) == (1, "draft")
    assert on_main(hub)[0] == "Publish v1.0.0 (#2)"


def test_a_dry_run_says_how(push, hub, linked):
    assert any("in a pull request of 3 commits and one merge;" in line for line in push("large", "--dry-run").out)
    assert len(json.loads("\n".join(push("large", "--dry-run", "--json").out))["upload"]) == SHARDS + 7
