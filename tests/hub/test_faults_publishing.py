"""What the real clients do when the Hub falters as they publish: what they retry, and what reaches their caller.

Code that publishes must handle what they do not. `waits` is what they would have waited, in seconds; `httpx` is what
huggingface_hub uses under that name, httpx2 since its version 2.
"""

import json
import threading

import huggingface_hub
import pytest
from huggingface_hub import CommitOperationDelete
from huggingface_hub.errors import HfHubHTTPError, RemoteEntryNotFoundError
from huggingface_hub.utils import httpx

from tests.hub.client import in_process
from tests.hub.samples import BACKOFF, CARD, LARGE, LARGE_SHA256, REPO, TEXT, publish
from tests.hub.server import Hub

HTML = "<html><body>503 Service Temporarily Unavailable</body></html>"

ONCE = {
    "whoami": lambda api: api.whoami(),
    "create_repo": lambda api: api.create_repo("org/other", repo_type="dataset", exist_ok=True),
    "auth_check_write": lambda api: api.auth_check(REPO, repo_type="dataset", write=True),
    "repo_info": lambda api: api.repo_info(REPO, repo_type="dataset"),
    "refs": lambda api: api.list_repo_refs(REPO, repo_type="dataset"),
    "create_tag": lambda api: api.create_tag(REPO, tag="v1", repo_type="dataset"),
    "paths_info": lambda api: api.get_paths_info(REPO, ["a.txt"], repo_type="dataset"),
    "commit": lambda api: publish(api, {"a.txt": TEXT}),
}
RETRIED = {
    "preupload": lambda api: publish(api, {"a.txt": TEXT}),
    "lfs_batch": lambda api: publish(api, {"a.parquet": LARGE}),
    "lfs_put": lambda api: publish(api, {"a.parquet": LARGE}),
    "lfs_verify": lambda api: publish(api, {"a.parquet": LARGE}),
    "tree": lambda api: list(api.list_repo_tree(REPO, repo_type="dataset")),
    "list_commits": lambda api: api.list_repo_commits(REPO, repo_type="dataset"),
}


# Errors


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("route", sorted(ONCE))
def test_tried_once(hub, api, repo, waits, route, status):
    """One error, whatever Retry-After says, and the caller has it."""
    hub.fail(route, status=status, headers={"Retry-After": "0"}, body=HTML)
    with pytest.raises(HfHubHTTPError) as caught:
        ONCE[route](api)
    assert caught.value.response.status_code == status
    assert (len(hub.asked(route)), waits) == (1, [])
    assert (len(hub.commits(repo)), hub.tags(repo), set(hub.repos)) == (1, {}, {repo})


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("route", sorted(RETRIED))
def test_retried(hub, api, repo, waits, route, status):
    hub.fail(route, status=status, times=3, body=HTML)
    RETRIED[route](api)
    assert (len(hub.asked(route)), waits) == (4, BACKOFF[:3])
    assert all(count == 1 for count in hub.uploads().values())


def test_retry_after_is_kept_to_a_second_more(hub, api, repo, waits):
    hub.fail("lfs_put", status=429, headers={"Retry-After": "7"})
    hub.fail("lfs_put", status=503, headers={"Retry-After": "0"})
    publish(api, {"a.parquet": LARGE})
    assert waits == [8, 1]


def test_five_retries_and_no_more(hub, api, repo, waits):
    """An upload that failed is a RuntimeError; the HTTP error is its cause. Nothing is committed."""
    hub.fail("lfs_put", status=503, times=None, body=HTML)
    with pytest.raises(RuntimeError, match=r"Error while uploading 'a\.parquet' to the Hub") as caught:
        publish(api, {"a.parquet": LARGE})
    assert isinstance(caught.value.__cause__, HfHubHTTPError)
    assert caught.value.__cause__.response.status_code == 503
    assert (len(hub.asked("lfs_put")), waits, len(hub.commits(repo))) == (6, BACKOFF, 1)


def test_what_is_not_passing_is_not_retried(hub, api, repo, waits):
    hub.fail("lfs_put", status=403)
    with pytest.raises(RuntimeError) as caught:
        publish(api, {"a.parquet": LARGE})
    assert caught.value.__cause__.response.status_code == 403
    assert waits == []


def test_a_check_of_the_card_that_fails_with_html_is_a_json_error(hub, api, repo, waits):
    """It is read before its status is looked at. A body that is JSON is told by its status."""
    hub.fail("validate_yaml", status=503, body=HTML)
    with pytest.raises(json.JSONDecodeError):
        publish(api, {"README.md": CARD})
    hub.fail("validate_yaml", status=503)
    with pytest.raises(HfHubHTTPError):
        publish(api, {"README.md": CARD})
    assert (hub.asked("preupload"), waits) == ([], [])


# Connections that end


def test_an_upload_that_breaks_off_is_sent_again_from_its_start(hub, api, repo, waits, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(LARGE)
    hub.drop("lfs_put", after=1_000_000, times=2)
    publish(api, {"a.parquet": str(path)})
    first, second, third = (request.bytes_in for request in hub.asked("lfs_put"))
    assert 1_000_000 <= first < len(LARGE)
    assert 1_000_000 <= second < len(LARGE)
    assert third == len(LARGE)
    assert (hub.uploads(), hub.read(repo, "a.parquet") == LARGE, waits) == ({LARGE_SHA256: 1}, True, [1, 2])


def test_an_upload_that_breaks_off_for_ever(hub, api, repo, waits):
    hub.drop("lfs_put", times=None)
    with pytest.raises(RuntimeError) as caught:
        publish(api, {"a.parquet": LARGE})
    assert isinstance(caught.value.__cause__, httpx.TransportError)
    assert len(hub.asked("lfs_put")) == 6


@pytest.mark.parametrize("route", sorted(ONCE))
def test_a_connection_that_ends_is_no_http_error(hub, api, repo, waits, route):
    """`httpx.TransportError`: neither an HfHubHTTPError nor an OSError, so no ConnectionError of Python's."""
    hub.drop(route)
    with pytest.raises(httpx.TransportError) as caught:
        ONCE[route](api)
    assert isinstance(caught.value, httpx.HTTPError)
    assert not isinstance(caught.value, (HfHubHTTPError, OSError))
    assert (len(hub.asked(route)), waits) == (1, [])


def test_a_hub_that_is_gone_is_a_connect_error(tmp_path):
    with Hub() as hub:
        pass
    with in_process(hub, tmp_path) as api, pytest.raises(httpx.ConnectError):
        api.whoami()


# Answers that are lost


@pytest.mark.parametrize("status", [None, 500, 504])
def test_a_commit_whose_answer_is_lost_is_there(hub, api, repo, status):
    hub.lose_response("commit", status=status)
    with pytest.raises(HfHubHTTPError if status else httpx.RemoteProtocolError):
        publish(api, {"a.txt": TEXT})
    assert hub.read(repo, "a.txt") == TEXT


def test_additions_may_be_repeated_after_a_lost_answer(hub, api, repo):
    """They are found unchanged: nothing is sent, the head's id is returned, and the parent is not looked at."""
    parent = hub.commits(repo)[0].id
    hub.lose_response()
    with pytest.raises(httpx.RemoteProtocolError):
        publish(api, {"a.txt": TEXT}, parent_commit=parent)
    done = publish(api, {"a.txt": TEXT}, parent_commit=parent)
    assert done.oid == hub.commits(repo)[0].id
    assert (len(hub.asked("commit")), len(hub.commits(repo))) == (1, 2)


@pytest.mark.parametrize("parent", [True, False], ids=["with parent", "without"])
def test_deletions_cannot_be_repeated_after_a_lost_answer(hub, api, repo, parent):
    hub.commit(repo, {"old.txt": TEXT})
    given = {"parent_commit": hub.commits(repo)[0].id} if parent else {}
    hub.lose_response()

    def delete():
        operations = [CommitOperationDelete("old.txt")]
        api.create_commit(repo, operations, commit_message="delete", repo_type="dataset", **given)

    with pytest.raises(httpx.RemoteProtocolError):
        delete()
    with pytest.raises(HfHubHTTPError) as caught:
        delete()
    assert caught.value.response.status_code == (412 if parent else 404)
    assert isinstance(caught.value, RemoteEntryNotFoundError) == (not parent)


def test_a_tag_whose_answer_is_lost_is_there(hub, api, repo):
    hub.lose_response("create_tag")
    with pytest.raises(httpx.RemoteProtocolError):
        api.create_tag(repo, tag="v1", repo_type="dataset")
    assert set(hub.tags(repo)) == {"v1"}
    with pytest.raises(HfHubHTTPError) as caught:
        api.create_tag(repo, tag="v1", repo_type="dataset")
    assert caught.value.response.status_code == 409


def test_a_repository_whose_answer_is_lost_is_there(hub, api):
    hub.lose_response("create_repo")
    with pytest.raises(httpx.RemoteProtocolError):
        api.create_repo(REPO, repo_type="dataset")
    assert api.create_repo(REPO, repo_type="dataset", exist_ok=True).repo_id == REPO


def test_an_upload_whose_answer_is_lost_is_sent_twice(hub, api, repo, waits):
    hub.lose_response("lfs_put")
    publish(api, {"a.parquet": LARGE})
    assert hub.uploads() == {LARGE_SHA256: 2}


# Others who publish at the same time


def test_another_publisher_comes_first(hub, api, repo):
    parent = hub.commits(repo)[0].id
    other = huggingface_hub.HfApi(endpoint=hub.endpoint, token=hub.add_user("other", ("org",)))
    hub.race(lambda: publish(other, {"theirs.txt": TEXT}))
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as caught:
        publish(api, {"ours.txt": TEXT}, parent_commit=parent)
    assert caught.value.response.status_code == 412
    assert (set(hub.files(repo)), hub.commits(repo)[0].author) == ({"theirs.txt"}, "other")


def test_without_a_parent_both_commits_stand(hub, api, repo):
    hub.race(lambda: hub.commit(repo, {"theirs.txt": TEXT}), nth=2)
    publish(api, {"first.txt": TEXT})
    publish(api, {"ours.txt": TEXT})
    assert [commit.author for commit in hub.commits(repo)] == ["publisher", "other", "publisher", "system"]
    assert set(hub.files(repo)) == {"first.txt", "theirs.txt", "ours.txt"}


def test_a_stale_parent_may_be_claimed_though_nobody_came(hub, api, repo):
    hub.stale_parent()
    with pytest.raises(HfHubHTTPError, match="412"):
        publish(api, {"a.txt": TEXT})
    publish(api, {"a.txt": TEXT})
    assert len(hub.commits(repo)) == 2


# Answers that are late


def test_nothing_but_downloads_has_a_time_limit(hub, api, repo):
    """A caller that must not hang has to set one itself, with `set_client_factory`."""
    assert huggingface_hub.get_session().timeout == httpx.Timeout(None)
    huggingface_hub.set_client_factory(lambda: httpx.Client(follow_redirects=True, timeout=0.2))
    try:
        hub.slow("commit", 60)
        with pytest.raises(httpx.ReadTimeout):
            publish(api, {"a.txt": TEXT})
    finally:
        huggingface_hub.set_client_factory(huggingface_hub.utils._http.default_client_factory)


def test_a_late_answer_is_waited_for(hub, api, repo):
    hub.slow("commit", 0.3)
    publish(api, {"a.txt": TEXT})
    assert set(hub.files(repo)) == {"a.txt"}


def test_late_metadata_of_a_file_is_asked_for_again(hub, api, repo):
    hub.slow("resolve", 60)
    api.hf_hub_download(repo, ".gitattributes", repo_type="dataset", etag_timeout=0.2)
    assert [request.method for request in hub.asked("resolve")] == ["HEAD", "HEAD", "GET"]


def test_the_end_of_a_test_ends_what_it_waits_for(tmp_path):
    """Else a commit that is never answered would keep a test from ending."""
    errors = []
    with Hub() as hub, in_process(hub, tmp_path) as api:
        hub.slow("whoami", 3600)

        def ask():
            try:
                api.whoami()
            except httpx.TransportError as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while not hub.asked("whoami"):
            thread.join(0.01)
        hub.close()
        thread.join(10)
    assert len(errors) == 1
