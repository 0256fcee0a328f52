"""What the real clients do when the Hub falters: what they retry by themselves, and what reaches their caller.

Code that publishes must handle what they do not. `waits` is what they would have waited, in seconds; `httpx` is what
huggingface_hub uses under that name, httpx2 since its version 2.
"""

import hashlib
import io
import json
import threading
from pathlib import Path

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfFileSystem
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RemoteEntryNotFoundError
from huggingface_hub.utils import httpx

from tests.hub.client import in_process
from tests.hub.server import Hub

REPO = "org/name"
CARD = b"---\nlicense: mit\n---\n# Card\n"
TEXT = b"plain words\n"
BINARY = bytes(range(256)) * 20_000
SHA256 = hashlib.sha256(BINARY).hexdigest()
HTML = "<html><body>503 Service Temporarily Unavailable</body></html>"

# What http_backoff waits for where no header says otherwise; it tries once more than that.
BACKOFF = [1, 2, 4, 8, 8]


@pytest.fixture
def repo(hub):
    hub.create(REPO)
    return REPO


def publish(api, files, **kwargs):
    operations = [CommitOperationAdd(path, data) for path, data in files.items()]
    return api.create_commit(REPO, operations, commit_message="publish", repo_type="dataset", **kwargs)


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
    "lfs_batch": lambda api: publish(api, {"a.parquet": BINARY}),
    "lfs_put": lambda api: publish(api, {"a.parquet": BINARY}),
    "lfs_verify": lambda api: publish(api, {"a.parquet": BINARY}),
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
    publish(api, {"a.parquet": BINARY})
    assert waits == [8, 1]


def test_five_retries_and_no_more(hub, api, repo, waits):
    """An upload that failed is a RuntimeError; the HTTP error is its cause. Nothing is committed."""
    hub.fail("lfs_put", status=503, times=None, body=HTML)
    with pytest.raises(RuntimeError, match=r"Error while uploading 'a\.parquet' to the Hub") as caught:
        publish(api, {"a.parquet": BINARY})
    assert isinstance(caught.value.__cause__, HfHubHTTPError)
    assert caught.value.__cause__.response.status_code == 503
    assert (len(hub.asked("lfs_put")), waits, len(hub.commits(repo))) == (6, BACKOFF, 1)


def test_what_is_not_passing_is_not_retried(hub, api, repo, waits):
    hub.fail("lfs_put", status=403)
    with pytest.raises(RuntimeError) as caught:
        publish(api, {"a.parquet": BINARY})
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
    path.write_bytes(BINARY)
    hub.drop("lfs_put", after=1_000_000, times=2)
    publish(api, {"a.parquet": str(path)})
    first, second, third = (request.bytes_in for request in hub.asked("lfs_put"))
    assert 1_000_000 <= first < len(BINARY)
    assert 1_000_000 <= second < len(BINARY)
    assert third == len(BINARY)
    assert (hub.uploads(), hub.read(repo, "a.parquet") == BINARY, waits) == ({SHA256: 1}, True, [1, 2])


def test_an_upload_that_breaks_off_for_ever(hub, api, repo, waits):
    hub.drop("lfs_put", times=None)
    with pytest.raises(RuntimeError) as caught:
        publish(api, {"a.parquet": BINARY})
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
    publish(api, {"a.parquet": BINARY})
    assert hub.uploads() == {SHA256: 2}


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


# Downloads


@pytest.fixture
def published(hub, repo):
    hub.commit(repo, {"README.md": CARD, "a.parquet": BINARY})
    return repo


def test_a_download_that_breaks_off_goes_on_where_it_was(hub, api, repo, waits):
    """In steps of 10 MiB, which is what the client writes at once: of smaller files it starts again."""
    data = BINARY * 3
    hub.commit(repo, {"a.parquet": BINARY, "b.parquet": data})
    for path, length in (("a.parquet", len(BINARY)), ("b.parquet", len(data))):
        hub.cut("cdn", after=length - 1000)
        local = api.hf_hub_download(repo, path, repo_type="dataset")
        assert Path(local).read_bytes() == hub.read(repo, path)
    assert [request.headers.get("range") for request in hub.asked("cdn")] == [None, None, None, "bytes=10485760-"]
    assert waits == [1, 1]


def test_damage_of_the_same_length_is_not_noticed(hub, api, published):
    """Sizes are compared, digests are not: who wants to be sure has to hash."""
    hub.corrupt("cdn")
    path = api.hf_hub_download(published, "a.parquet", repo_type="dataset")
    assert Path(path).read_bytes() == b"\xff" + BINARY[1:]


def test_an_error_of_a_download_is_not_retried(hub, api, published, waits):
    hub.fail("cdn", status=503)
    with pytest.raises(HfHubHTTPError) as caught:
        api.hf_hub_download(published, "a.parquet", repo_type="dataset")
    assert (caught.value.response.status_code, len(hub.asked("cdn")), waits) == (503, 1, [])


def test_errors_of_metadata_are_retried_where_nothing_is_cached(hub, api, published, waits):
    """Once at once, then with waits. At last it is a file not found, whose cause is the HTTP error."""
    hub.fail("resolve", status=503, times=3)
    api.hf_hub_download(published, "README.md", repo_type="dataset")
    assert waits == BACKOFF[:2]
    hub.fail("resolve", status=503, times=None)
    with pytest.raises(LocalEntryNotFoundError) as caught:
        api.hf_hub_download(published, "a.parquet", repo_type="dataset")
    assert caught.value.__cause__.response.status_code == 503
    assert waits == [*BACKOFF[:2], *BACKOFF]
    with pytest.raises(ValueError, match="Force download failed"):
        api.hf_hub_download(published, "a.parquet", repo_type="dataset", force_download=True)


def test_an_error_of_metadata_brings_back_what_is_cached(hub, api, published, waits):
    """Without a word: a branch or tag that moved since is read as it was."""
    api.hf_hub_download(published, "README.md", repo_type="dataset")
    hub.commit(published, {"README.md": CARD + TEXT})
    hub.fail("resolve", status=503)
    local = api.hf_hub_download(published, "README.md", repo_type="dataset")
    assert Path(local).read_bytes() == CARD
    assert waits == []


def test_a_rate_limit_of_a_download_is_waited_for(hub, api, published, waits):
    hub.fail("cdn", status=429, headers={"Retry-After": "3"})
    api.hf_hub_download(published, "a.parquet", repo_type="dataset")
    assert waits == [4]


def test_ranges_are_retried(hub, api, published, waits):
    hub.fail("cdn", status=503, times=2)
    hub.cut("cdn", after=100)
    with HfFileSystem().open(f"datasets/{published}/a.parquet", block_size=2**16) as file:
        file.seek(-1000, 2)
        assert file.read(1000) == BINARY[-1000:]
    assert waits == [1, 2, 4]


TABLE = {"id": ["a", "b"]}


@pytest.fixture
def loadable(hub, repo):
    buffer = io.BytesIO()
    pq.write_table(pa.table(TABLE), buffer)
    hub.commit(repo, {"train.parquet": buffer.getvalue()})
    hub.tag(repo, "v1")
    return repo


def test_load_dataset_bears_one_error_of_metadata_and_none_of_contents(hub, api, loadable, waits):
    hub.fail("resolve", status=503)
    hub.fail("cdn", status=503)
    with pytest.raises(HfHubHTTPError) as caught:
        datasets.load_dataset(loadable, split="train", revision="v1")
    assert (caught.value.response.status_code, len(hub.asked("cdn")), waits) == (503, 1, [])
    assert datasets.load_dataset(loadable, split="train", revision="v1").to_dict() == TABLE


def test_load_dataset_of_a_hub_that_only_fails(hub, api, loadable, waits):
    """A FileNotFoundError that names the Hub's error in its text alone."""
    hub.fail("resolve", status=503, times=None)
    with pytest.raises(FileNotFoundError, match="LocalEntryNotFoundError") as caught:
        datasets.load_dataset(loadable, split="train", revision="v1")
    assert (type(caught.value), caught.value.__cause__) == (FileNotFoundError, None)


def test_load_dataset_of_a_hub_that_fails_gives_another_revision_that_is_cached(hub, api, loadable, waits, caplog):
    """With a warning only, so who checks a revision needs a cache of its own."""
    datasets.load_dataset(loadable, split="train", revision="v1")
    hub.commit(loadable, {"train.parquet": None, "README.md": CARD})
    hub.tag(loadable, "v2")
    hub.fail("resolve", status=503, times=None)
    assert datasets.load_dataset(loadable, split="train", revision="v2").to_dict() == TABLE
    assert "Using the latest cached version of the dataset" in caplog.text


def test_streaming_retries_contents(hub, api, loadable, waits):
    hub.fail("cdn", status=503, times=2)
    rows = datasets.load_dataset(loadable, split="train", revision="v1", streaming=True)
    assert [row["id"] for row in rows] == TABLE["id"]
    assert waits == [1, 2]
