"""The Hub falters while a release is published: what is mended by trying again, and what is said when it is not.

`naps` holds the seconds that we would have waited between tries; the client waits by itself where it tries again.
"""

import pytest

from hf_scripts import push as push_command
from tests.hf_scripts.samples import REPO, contents, make_release, manifest_at
from tests.hub.client import in_process
from tests.hub.faults import Faults
from tests.hub.server import Hub
from tests.sentences import assert_sentence

HTML = "<html><body>503 Service Temporarily Unavailable</body></html>"

# Routes of a second push, of a split that fits those that are there, in the order of first use.
READING = ("whoami", "refs", "repo_info", "auth_check_write", "tree", "resolve", "cdn", "validate_yaml")
STEPS = (*READING, "preupload", "lfs_batch", "lfs_put", "lfs_verify", "commit", "create_tag")


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    """As elsewhere, once for all. Read only."""
    return make_release(tmp_path_factory.mktemp("more") / "more", {"bench/far_ood": range(4)})


@pytest.fixture(scope="module")
def versions(sample, more, tmp_path_factory):
    """What two pushes leave where nothing goes wrong: all files of both versions."""
    with Hub() as hub, in_process(hub, tmp_path_factory.mktemp("undisturbed")):
        for folder, tag in ((sample, "v1.0.0"), (more, "v1.1.0")):
            assert push_command.main([str(folder), "--repo", REPO, "--tag", tag, "--workers", "1"]) == 0
        return [contents(hub, tag) for tag in ("v1.0.0", "v1.1.0")]


@pytest.fixture
def undisturbed(versions):
    return versions[1]


@pytest.fixture
def begun(push, hub, more, versions, tmp_path, naps):
    """A repository with a first version; `more` is at hand to be the next."""
    (tmp_path / "more").symlink_to(more)
    hub.create(REPO)
    hub.commit(REPO, versions[0], title="Publish v1.0.0")
    hub.tag(REPO, "v1.0.0")
    return push


def push_again(push, hub, undisturbed):
    """The same command again ends well, in the commit that an undisturbed push would have made."""
    assert push("more", tag="v1.1.0").code == 0
    assert contents(hub, "v1.1.0") == undisturbed
    assert [commit.title for commit in hub.commits(REPO)] == ["Publish v1.1.0", "Publish v1.0.0", "initial commit"]
    assert hub.tags(REPO)["v1.1.0"] == hub.commits(REPO)[0].id


def mend(hub):
    """No fault strikes from here on."""
    hub.faults = Faults()


# Errors that pass


def test_errors_that_pass(begun, hub, undisturbed):
    """In each step a 429, a 500 and a 503 with a load balancer's page, one after the other."""
    for step in STEPS:
        hub.fail(step, status=429)
        hub.fail(step, status=500)
        hub.fail(step, status=503, body=HTML)
    push_again(begun, hub, undisturbed)
    assert all(count == 1 for count in hub.uploads().values())


def test_connections_that_end(begun, hub, undisturbed):
    for step in STEPS:
        hub.drop(step, times=2)
    push_again(begun, hub, undisturbed)
    assert all(count == 1 for count in hub.uploads().values())


def test_errors_while_a_repository_is_made(push, hub, release, naps):
    hub.fail("create_repo", status=503)
    hub.lose_response("create_repo")
    assert push("release").code == 0
    assert (len(hub.asked("create_repo")), naps) == (3, [1, 2])


def test_another_creates_the_repository_in_the_same_moment(push, hub, release):
    """The answer then lacks the address that the client reads (huggingface/huggingface_hub#3279)."""
    hub.faults.add("race", "create_repo", callback=lambda: hub.create(REPO))
    hub.fail("create_repo", status=409, body='{"error": "A repository with this name already exists"}')
    assert push("release").code == 0
    assert hub.tags(REPO) == {"v1.0.0": hub.commits(REPO)[0].id}


def test_the_hub_says_how_long_to_wait(begun, hub, naps):
    hub.fail("commit", status=429, headers={"Retry-After": "17"})
    hub.fail("create_tag", status=429, headers={"RateLimit": '"api";r=0;t=55'})
    ran = begun("more", tag="v1.1.0")
    assert (ran.code, naps) == (0, [17, 55])
    assert ran.err == [
        "the Hub answered 429 Too Many Requests (fault of the stand-in); trying again in 17 s to commit to org/name",
        "the Hub answered 429 Too Many Requests (fault of the stand-in); trying again in 55 s to set the tag v1.1.0 "
        "of org/name",
    ]


def test_a_hub_that_falls_silent(begun, hub, undisturbed, monkeypatch):
    monkeypatch.setattr("builders.hub.client.READ_TIMEOUT", 0.5)
    hub.slow("commit", 60)
    push_again(begun, hub, undisturbed)


BUSY = '{"error": "Another commit operation is in progress for this repository. Please try again later."}'


def test_the_hub_is_busy_with_another_commit(begun, hub, undisturbed, naps):
    """It takes one commit of a repository at a time. Of a tag the same status says that there is one already."""
    for step in ("commit", "create_tag"):
        hub.fail(step, status=409, body=BUSY, times=2)
    push_again(begun, hub, undisturbed)
    assert naps == [1, 2, 1, 2]


def test_damage_on_the_way_is_noticed(begun, hub, undisturbed):
    """The manifest, the first file that is downloaded, comes with another first byte."""
    hub.corrupt("resolve", skip=1)
    push_again(begun, hub, undisturbed)


# Errors that do not


@pytest.mark.parametrize("step", ["whoami", "cdn", "lfs_put", "commit", "create_tag"])
def test_a_step_that_fails_for_good(begun, hub, undisturbed, step):
    """One sentence; nothing is to be seen before the commit; the same command goes on, and sends no file twice."""
    hub.fail(step, status=503, body=HTML, times=None)
    error = begun("more", tag="v1.1.0").error
    assert error.startswith("Cannot ")
    assert "the Hub answered 503 Service Unavailable" in error or "the answer is not JSON" in error
    assert_sentence(error)
    if step != "create_tag":
        assert len(hub.commits(REPO)) == 2
    assert set(hub.tags(REPO)) == {"v1.0.0"}
    mend(hub)
    push_again(begun, hub, undisturbed)
    assert all(count == 1 for count in hub.uploads().values())


def test_an_object_that_is_there_need_not_be_confirmed(begun, hub, undisturbed):
    """The client asks the Hub to confirm each upload; where that fails for good, the next try finds the object."""
    hub.fail("lfs_verify", status=503, times=None)
    push_again(begun, hub, undisturbed)
    assert all(count == 1 for count in hub.uploads().values())


@pytest.mark.parametrize(
    ("status", "advice"),
    [(413, "Publish fewer splits at a time with --splits"), (403, "Use a token that may do so")],
)
def test_a_refusal_is_not_repeated(begun, hub, naps, status, advice):
    hub.fail("commit", status=status)
    error = begun("more", tag="v1.1.0").error
    assert_sentence(error, "org/name", status)
    assert advice in error
    assert naps == []


def test_a_card_that_the_hub_refuses(begun, hub):
    hub.fail("validate_yaml", status=400, body='{"errors": [{"message": "no such licence"}], "warnings": []}')
    error = begun("more", tag="v1.1.0").error
    assert_sentence(error)
    assert (len(hub.commits(REPO)), hub.asked("preupload"), hub.uploads()) == (2, [], {})


def test_warnings_of_the_card_are_said(begun, hub):
    # We ask before anything is sent, and the client before it commits; they are said once.
    warned = '{"errors": [], "warnings": [{"message": "no licence is named"}]}'
    hub.fail("validate_yaml", status=200, body=warned, times=2)
    ran = begun("more", tag="v1.1.0")
    assert ran.code == 0
    assert ran.err == ["note: Warnings while validating metadata in README.md: - no licence is named"]


# Answers that are lost


@pytest.mark.parametrize("status", [None, 500, 504])
def test_a_commit_whose_answer_is_lost(begun, hub, undisturbed, status):
    hub.lose_response("commit", status=status)
    push_again(begun, hub, undisturbed)


@pytest.mark.parametrize("status", [None, 500])
def test_a_tag_whose_answer_is_lost(begun, hub, undisturbed, status):
    hub.lose_response("create_tag", status=status)
    push_again(begun, hub, undisturbed)


def test_a_replacing_commit_whose_answer_is_lost(begun, hub, tmp_path):
    """Deletions cannot be repeated, and need not be."""
    make_release(tmp_path / "fewer", {"bench/test": range(3)}, shards=3)
    hub.lose_response("commit")
    assert begun("fewer", tag="v2.0.0").code == 0
    assert "data/bench/test-00000-of-00001.parquet" not in hub.files(REPO, "v2.0.0")
    assert len(hub.commits(REPO)) == 3


def test_another_release_after_a_commit_without_its_tag(begun, hub, more, tmp_path):
    """Both are of the version that is tagged at last, and its changelog has both."""
    hub.fail("create_tag", times=None)
    assert begun("more", tag="v1.1.0").code == 2
    mend(hub)
    make_release(tmp_path / "third", {"bench/far_ood_b": range(2)})
    assert begun("third", tag="v1.1.0").code == 0
    table = hub.read(REPO, "changes/v1.1.0.csv", "v1.1.0").decode().splitlines()
    assert table == [
        "split,change,id",
        *(f"bench/far_ood,added,source/far_ood/{number}.png" for number in range(4)),
        *(f"bench/far_ood_b,added,source/far_ood_b/{number}.png" for number in range(2)),
    ]
    assert hub.read(REPO, "CHANGELOG.md").decode().count("## v1.1.0") == 1


# Others who publish at the same time


def test_another_commit_comes_first(begun, hub, tmp_path):
    hub.race(lambda: hub.commit(REPO, {"LICENSE": b"mine\n"}))
    error = begun("more", tag="v1.1.0").error
    assert_sentence(error)
    assert "more" not in hub.commits(REPO)[0].title
    # What came is no release, so a person must look.
    assert "is damaged: LICENSE" in begun("more", tag="v1.1.0").error


def test_another_publisher_comes_first(begun, hub, versions, tmp_path):
    """The other is told in a sentence, and its next run joins both."""
    make_release(tmp_path / "ours", {"bench/far_ood_b": range(4)})

    def overtake():
        hub.commit(REPO, versions[1], title="Publish v1.1.0")
        hub.tag(REPO, "v1.1.0")

    hub.race(overtake)
    assert begun("ours", tag="v1.1.0").error.startswith("Somebody else committed to org/name ")
    assert "bench/far_ood_b" not in hub.read(REPO, "README.md").decode()
    assert "--tag v1.2.0 or higher" in begun("ours", tag="v1.1.0").error
    assert begun("ours", tag="v1.2.0").code == 0
    splits = set(manifest_at(hub, "v1.2.0")["configs"]["bench"]["splits"])
    assert splits == {"test", "near_ood", "far_ood", "far_ood_b"}


def test_a_version_is_tagged_while_another_is_uploaded(begun, hub, tmp_path):
    """That of a run that was killed before its tag, and is gone on with; the commit is the same as before."""
    hub.fail("create_tag", status=403)
    assert begun("more", tag="v1.1.0").code == 2
    make_release(tmp_path / "ours", {"bench/far_ood_b": range(2)})
    head = hub.commits(REPO)[0].id
    hub.faults.add("race", "lfs_put", callback=lambda: hub.tag(REPO, "v1.1.0", head))
    assert_sentence(begun("ours", tag="v1.1.0").error, "org/name", "v1.1.0 was not published")
    assert (hub.commits(REPO)[0].id, hub.tags(REPO)["v1.1.0"]) == (head, head)
    assert begun("ours", tag="v1.2.0").code == 0
    assert manifest_at(hub, "v1.2.0")["previous"] == "1.1.0"


def test_the_same_release_is_published_by_two_at_once(begun, hub, versions, undisturbed):
    def overtake():
        hub.commit(REPO, versions[1], title="Publish v1.1.0")
        hub.tag(REPO, "v1.1.0")

    hub.race(overtake)
    push_again(begun, hub, undisturbed)


def test_a_tag_that_another_sets_first(begun, hub):
    elsewhere = hub.tags(REPO)["v1.0.0"]
    hub.race(lambda: hub.tag(REPO, "v1.1.0", elsewhere))
    error = begun("more", tag="v1.1.0").error
    assert_sentence(error, "v1.1.0", "org/name")
    assert error.rstrip().endswith("otherwise publish under another tag, with --allow-moved-tags.")
    assert hub.tags(REPO)["v1.1.0"] == elsewhere
    # Their tag names a commit that did not publish that version.
    error = begun("more", tag="v1.1.0").error
    assert_sentence(error, elsewhere[:12], "v1.1.0")
    error = begun("more", "--allow-moved-tags", tag="v1.1.0").error
    assert_sentence(error, "bench/far_ood", "--tag", "v1.2.0")
    assert begun("more", "--allow-moved-tags", tag="v1.2.0").code == 0
