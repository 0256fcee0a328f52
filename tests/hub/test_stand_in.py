"""The stand-in Hub itself: whom it lets do what, how it ends, and the guard, which refuses and notes other hosts.

The tests of `hf_scripts` and of `hf://` sources are worth what the stand-in is: in this folder the installed clients
publish to it, read from it and falter with it, and no connection leaves the machine.
"""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import datasets
import huggingface_hub
import pytest
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, RepositoryNotFoundError
from huggingface_hub.utils import httpx

from tests.hub.client import in_process
from tests.hub.loopback import ForeignHostError, refused, watching
from tests.hub.process import HubProcess
from tests.hub.samples import BINARY, REPO, SHA256, TEXT, publish, refusal, release, rows
from tests.hub.server import Hub

pytest_plugins = ["pytester"]


def test_accounts(hub, api, repo, tmp_path):
    """A wrong token is not taken for a missing repository; a 403 is hidden where the repository can be read."""
    me = api.whoami()
    assert (me["name"], [org["name"] for org in me["orgs"]]) == ("publisher", ["org"])
    assert me["auth"]["accessToken"]["role"] == "write"
    asked = len(hub.requests)
    with in_process(hub, tmp_path, anonymous=True), pytest.raises(LocalTokenNotFoundError):
        HfApi(endpoint=hub.endpoint).whoami()
    assert len(hub.requests) == asked
    wrong = HfApi(endpoint=hub.endpoint, token="hf_wrong")
    for ask in (wrong.whoami, lambda: wrong.repo_info(repo, repo_type="dataset")):
        with refusal(401) as caught:
            ask()
        assert not isinstance(caught.value, RepositoryNotFoundError)
    reader = HfApi(endpoint=hub.endpoint, token=hub.add_user("reader", ("org",), role="read"))
    assert reader.repo_info(repo, repo_type="dataset").sha == hub.commits(repo)[0].id
    assert reader.create_repo(repo, repo_type="dataset", exist_ok=True).repo_id == repo
    for change in (
        lambda: api.create_repo("others/name", repo_type="dataset"),
        lambda: reader.create_repo("org/other", repo_type="dataset"),
        lambda: publish(reader, {"a.txt": TEXT}),
        lambda: reader.create_tag(repo, tag="v1", repo_type="dataset"),
        lambda: reader.auth_check(repo, repo_type="dataset", write=True),
    ):
        with refusal(403):
            change()
    assert (len(hub.commits(repo)), hub.tags(repo), set(hub.repos)) == (1, {}, {repo})


def test_a_repository_is_created_once(hub, api):
    """With `exist_ok` it is left as it is, public or private."""
    url = api.create_repo(REPO, repo_type="dataset")
    assert (url.repo_id, url.repo_type, url.endpoint) == (REPO, "dataset", hub.endpoint)
    with refusal(409):
        api.create_repo(REPO, repo_type="dataset")
    assert api.create_repo(REPO, repo_type="dataset", private=True, exist_ok=True) == url
    assert not api.repo_info(REPO, repo_type="dataset").private
    assert [commit.title for commit in hub.commits(REPO)] == ["initial commit"]


def test_to_strangers_a_private_repository_does_not_exist(hub, api, tmp_path):
    """Nobody reads a public one, too, and writes none."""
    api.create_repo(REPO, repo_type="dataset", private=True)
    hub.commit(REPO, release())
    token = hub.add_user("stranger")
    for client, status in (
        (HfApi(endpoint=hub.endpoint, token=token), 404),
        (HfApi(endpoint=hub.endpoint, token=False), 401),
    ):
        for missing in (REPO, "org/there-is-none"):
            with refusal(status, RepositoryNotFoundError):
                client.repo_info(missing, repo_type="dataset")
    for login in ({"anonymous": True}, {"token": token}):
        with in_process(hub, tmp_path / str(login), **login), pytest.raises(DatasetNotFoundError):
            datasets.load_dataset(REPO, "beta", split="test")
    assert list(datasets.load_dataset(REPO, "beta", split="test")) == rows("beta", "test")
    api.auth_check(REPO, repo_type="dataset", write=True)
    hub.create("org/public")
    assert client.repo_info("org/public", repo_type="dataset").id == "org/public"
    with refusal(401, RepositoryNotFoundError):
        client.create_tag("org/public", tag="v1", repo_type="dataset")


def test_the_stand_in_says_what_it_does_not_do(hub, api, repo):
    with pytest.raises(HfHubHTTPError, match="the stand-in has no route POST"):
        api.create_branch(repo, branch="other", repo_type="dataset")
    with pytest.raises(HfHubHTTPError, match="dataset repositories only"):
        api.create_repo("org/model")
    with pytest.raises(ValueError, match="no route is called"):
        hub.fail("comit")
    with pytest.raises(AssertionError, match="never struck"), Hub() as other:
        other.fail("commit")


def test_an_error_inside_the_stand_in_is_raised_at_its_end(tmp_path):
    def broken():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Hub() as hub, in_process(hub, tmp_path) as api:
        hub.create(REPO)
        hub.race(broken)
        with pytest.raises(httpx.RemoteProtocolError):
            publish(api, {"a.txt": TEXT})


def test_the_end_of_a_test_ends_what_it_waits_for(tmp_path):
    """Else a commit that is never answered would keep a test from ending. Afterwards nobody answers."""
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
        with pytest.raises(httpx.ConnectError):
            api.whoami()


PUSH = """
import sys
import datasets
from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download
api = HfApi()
api.create_repo("org/new", repo_type="dataset")
api.create_commit("org/new", [CommitOperationAdd("a.parquet", b"data")], commit_message="m", repo_type="dataset")
print(hf_hub_download("org/new", "a.parquet", repo_type="dataset"))
print(datasets.load_dataset("org/name", "beta", split="test", revision="v1")[0]["id"])
"""


def test_a_subprocess_knows_no_other_hub(hub, published, tmp_path, monkeypatch):
    """Nor the machine's own token, caches and proxy."""
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_machine")
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    done = subprocess.run(
        [sys.executable, "-c", PUSH], env=hub.environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    path, row = done.stdout.splitlines()
    assert (Path(path).is_relative_to(tmp_path / "hf-home"), row) == (True, "beta-test-0")
    assert hub.commits("org/new")[0].author == "publisher"


def test_a_stand_in_in_its_own_process(tmp_path):
    with HubProcess() as hub:
        hub.call("create", REPO)
        hub.call("fail", "repo_info", status=500)
        with in_process(hub, tmp_path) as api:
            with refusal(500):
                api.repo_info(REPO, repo_type="dataset")
            done = publish(api, {"a.parquet": BINARY})
        assert hub.call("commits", REPO)[0].id == done.oid
        assert hub.call("files", REPO)["a.parquet"].sha256 == SHA256
        assert hub.call("requests")[0].status == 500


# 192.0.2.0/24 and example.* are set aside for documentation (RFC 5737, RFC 2606): nobody answers there.
ADDRESS = "192.0.2.7"


@pytest.fixture
def watched(guarded, tmp_path):
    """Attempts of these tests are noted apart, so that the fixture that watches all tests does not fail them."""
    log = tmp_path / "attempts"
    with watching(log):
        yield lambda: refused(log)


def send_datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", (ADDRESS, 53))


def test_other_hosts_are_refused(watched):
    attempts = [
        (lambda: socket.create_connection((ADDRESS, 80), timeout=1), ADDRESS),
        (send_datagram, ADDRESS),
        (lambda: socket.getaddrinfo("example.org", 443), "example.org"),
        (lambda: socket.gethostbyname("example.net"), "example.net"),
        (lambda: huggingface_hub.get_session().get("https://example.com/x"), "example.com"),
        (lambda: HfApi().whoami(token="hf_x"), "huggingface.co"),
        (lambda: datasets.load_dataset("org/name"), "huggingface.co"),
    ]
    for number, (attempt, host) in enumerate(attempts):
        with pytest.raises(ForeignHostError, match=host):
            attempt()
        assert watched() == sorted({host for _, host in attempts[: number + 1]})


def test_this_machine_is_not(watched, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as peer:
        server.bind(path)
        server.listen()
        peer.connect(path)
    assert watched() == []


def test_a_client_that_swallows_the_error_fails_the_test(pytester):
    """`load_dataset` asks the dataset viewer so, and Amazon for counting: errors there are never seen."""
    pytester.makepyfile(
        """
        import contextlib
        import socket
        from tests.hub.guard import only_loopback

        def test_swallows(only_loopback):
            with contextlib.suppress(Exception):
                socket.getaddrinfo("example.org", 443)

        def test_other(only_loopback):
            assert only_loopback() == []
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*connections were attempted to example.org*"])


REACH = """
import contextlib, socket
with contextlib.suppress(Exception):
    socket.create_connection(("192.0.2.7", 80), timeout=1)
"""


def test_subprocesses_are_guarded_and_noted(hub, tmp_path, monkeypatch):
    monkeypatch.delenv("HUB_FOREIGN_HOSTS")
    environment = hub.environment(tmp_path / "sub")
    spawned = f"import multiprocessing as m; m.get_context('spawn').Pool(1).apply(exec, ({REACH!r},))"
    for code in (REACH, spawned):
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        assert refused(tmp_path / "sub" / "foreign-hosts") == [ADDRESS]
        (tmp_path / "sub" / "foreign-hosts").unlink()


def test_the_clients_would_reach_others_without_the_settings(hub, repo, tmp_path, watched, monkeypatch):
    """What `in_process` and `environment` switch off, each seen to be needed."""
    hub.commit(repo, {"a.csv": b"a\n1\n"})
    with in_process(hub, tmp_path):
        monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", True)
        datasets.load_dataset(repo)
    assert watched() == ["s3.amazonaws.com"]
