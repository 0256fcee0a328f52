"""The stand-in as such, and whom it lets do what, under the real huggingface_hub."""

import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, RepositoryNotFoundError
from huggingface_hub.utils import httpx

from tests.hub.client import in_process
from tests.hub.process import HubProcess
from tests.hub.samples import BINARY, REPO, SHA256, TEXT, publish
from tests.hub.server import Hub


def test_whoami(hub, api):
    me = api.whoami()
    assert (me["name"], [org["name"] for org in me["orgs"]]) == ("publisher", ["org"])
    assert me["auth"]["accessToken"]["role"] == "write"


def test_whoami_without_a_token_asks_nobody(hub, tmp_path):
    with in_process(hub, tmp_path, anonymous=True), pytest.raises(LocalTokenNotFoundError):
        HfApi(endpoint=hub.endpoint).whoami()
    assert hub.requests == []


def test_a_wrong_token_is_not_taken_for_a_missing_repository(hub, api, repo):
    wrong = HfApi(endpoint=hub.endpoint, token="hf_wrong")
    for ask in (wrong.whoami, lambda: wrong.repo_info(repo, repo_type="dataset")):
        with pytest.raises(HfHubHTTPError) as caught:
            ask()
        assert caught.value.response.status_code == 401
        assert not isinstance(caught.value, RepositoryNotFoundError)


def test_a_repository_is_created_once(hub, api):
    url = api.create_repo(REPO, repo_type="dataset", private=True)
    assert (url.repo_id, url.repo_type, url.endpoint) == (REPO, "dataset", hub.endpoint)
    assert hub.repos[REPO].private
    with pytest.raises(HfHubHTTPError) as caught:
        api.create_repo(REPO, repo_type="dataset")
    assert caught.value.response.status_code == 409
    assert api.create_repo(REPO, repo_type="dataset", exist_ok=True) == url
    assert [commit.title for commit in hub.commits(REPO)] == ["initial commit"]


def test_exist_ok_leaves_a_public_repository_public(hub, api, repo):
    api.create_repo(repo, repo_type="dataset", private=True, exist_ok=True)
    assert not api.repo_info(repo, repo_type="dataset").private


def test_a_foreign_namespace_is_forbidden(hub, api):
    with pytest.raises(HfHubHTTPError) as caught:
        api.create_repo("others/name", repo_type="dataset")
    assert caught.value.response.status_code == 403


def test_a_token_that_only_reads_changes_nothing(hub, api, repo):
    reader = HfApi(endpoint=hub.endpoint, token=hub.add_user("reader", ("org",), role="read"))
    assert reader.repo_info(repo, repo_type="dataset").sha == hub.commits(repo)[0].id
    changes = (
        lambda: reader.create_repo("org/other", repo_type="dataset"),
        lambda: publish(reader, {"a.txt": TEXT}),
        lambda: reader.create_tag(repo, tag="v1", repo_type="dataset"),
        lambda: reader.auth_check(repo, repo_type="dataset", write=True),
    )
    for change in changes:
        with pytest.raises(HfHubHTTPError) as caught:
            change()
        assert caught.value.response.status_code == 403
    assert (len(hub.commits(repo)), hub.tags(repo), set(hub.repos)) == (1, {}, {repo})


def test_exist_ok_says_nothing_of_write_access(hub, api, repo):
    """A 403 is hidden where the repository can be read, so it comes with the first commit only."""
    reader = HfApi(endpoint=hub.endpoint, token=hub.add_user("reader", ("org",), role="read"))
    assert reader.create_repo(repo, repo_type="dataset", exist_ok=True).repo_id == repo


def test_to_strangers_a_private_repository_does_not_exist(hub, api):
    hub.create(REPO, private=True)
    stranger = HfApi(endpoint=hub.endpoint, token=hub.add_user("stranger"))
    nobody = HfApi(endpoint=hub.endpoint, token=False)
    for client, status in ((stranger, 404), (nobody, 401)):
        for missing in (REPO, "org/there-is-none"):
            with pytest.raises(RepositoryNotFoundError) as caught:
                client.repo_info(missing, repo_type="dataset")
            assert caught.value.response.status_code == status
    api.auth_check(REPO, repo_type="dataset", write=True)


def test_nobody_reads_a_public_repository_and_writes_none(hub, api, repo):
    nobody = HfApi(endpoint=hub.endpoint, token=False)
    assert nobody.repo_info(repo, repo_type="dataset").id == repo
    with pytest.raises(RepositoryNotFoundError) as caught:
        publish(nobody, {"a.txt": TEXT})
    assert caught.value.response.status_code == 401


# The stand-in itself


def test_a_route_that_is_not_there_says_so(hub, api, repo):
    with pytest.raises(HfHubHTTPError, match="the stand-in has no route POST"):
        api.create_branch(repo, branch="other", repo_type="dataset")
    with pytest.raises(HfHubHTTPError, match="dataset repositories only"):
        api.create_repo("org/model")


def test_a_fault_that_never_strikes_fails_the_test():
    with pytest.raises(AssertionError, match="never struck"), Hub() as hub:
        hub.fail("commit")
    with Hub() as hub, pytest.raises(ValueError, match="no route is called"):
        hub.fail("comit")


def test_an_error_inside_the_stand_in_is_raised_at_its_end(tmp_path):
    def broken():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Hub() as hub, in_process(hub, tmp_path) as api:
        hub.create(REPO)
        hub.race(broken)
        with pytest.raises(httpx.RemoteProtocolError):
            publish(api, {"a.txt": TEXT})


PUSH = """
import sys
from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download
api = HfApi()
api.create_repo("org/name", repo_type="dataset")
api.create_commit("org/name", [CommitOperationAdd("a.parquet", b"data")], commit_message="m", repo_type="dataset")
print(hf_hub_download("org/name", "a.parquet", repo_type="dataset"))
"""


def test_a_subprocess_knows_no_other_hub(hub, tmp_path, monkeypatch):
    """Nor the machine's own token, caches and proxy."""
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_machine")
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    done = subprocess.run(
        [sys.executable, "-c", PUSH], env=hub.environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "hf-home")
    assert hub.commits(REPO)[0].author == "publisher"


def test_a_stand_in_in_its_own_process(tmp_path):
    with HubProcess() as hub:
        hub.call("create", REPO)
        hub.call("fail", "repo_info", status=500)
        with in_process(hub, tmp_path) as api:
            with pytest.raises(HfHubHTTPError):
                api.repo_info(REPO, repo_type="dataset")
            done = publish(api, {"a.parquet": BINARY})
        assert hub.call("commits", REPO)[0].id == done.oid
        assert hub.call("files", REPO)["a.parquet"].sha256 == SHA256
        assert hub.call("requests")[0].status == 500
