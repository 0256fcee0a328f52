"""The stand-in Hub: the installed clients publish to it and read from it, and no connection leaves the machine.

The tests of `hf_scripts` and of `hf://` sources are worth what the stand-in is.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import datasets
import huggingface_hub
import pytest
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalTokenNotFoundError,
    RepositoryNotFoundError,
)

from builders.hub.repository import git_oid
from tests.hub.client import in_process
from tests.hub.loopback import ForeignHostError, refused, watching
from tests.hub.samples import BINARY, CARD, REPO, SHA256, TEXT, publish, refusal, release, rows
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


def test_what_goes_to_lfs(hub, api, repo):
    """By extension, by size (more than 10 MiB) and by content (a zero byte); text stays in git."""
    before = hub.commits(repo)[0]
    long = b'"' + b"x" * (10 * 1024 * 1024) + b'"\n'
    files = {
        "a.parquet": BINARY,
        "deep/er/a.jpg": TEXT,
        "README.md": CARD,
        "manifest.json": b"{}\n",
        "long.json": long,
        "exactly.json": long[: 10 * 1024 * 1024],
        "unnamed": b"\0" + TEXT,
        "empty.parquet": b"",
    }
    done = publish(api, files, commit_message="first", commit_description="why")
    commit = hub.commits(repo)[0]
    assert (commit.id, commit.parent, commit.author) == (done.oid, before, "publisher")
    assert (commit.title, commit.message) == ("first", "why")
    in_lfs = {path for path, file in hub.files(repo).items() if file.lfs}
    assert in_lfs == {"a.parquet", "deep/er/a.jpg", "long.json", "unnamed"}
    assert {path: hub.read(repo, path) for path in files} == files
    assert hub.uploads()[SHA256] == 1


def test_small_files_are_named_by_git(hub, repo, tmp_path):
    """As `printf 'hello world\\n' | git hash-object --stdin` says."""
    hub.commit(repo, {"a.txt": b"hello world\n"})
    (tmp_path / "a.txt").write_bytes(b"hello world\n")
    name = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"
    assert (hub.files(repo)["a.txt"].oid, git_oid(tmp_path / "a.txt")) == (name, name)


def card_of(block):
    return f"---\n{block}\n---\n# Card\n".encode()


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        (card_of("a: b: c"), "the metadata block is not YAML"),
        (card_of("[1, 2]"), "the metadata block is not a mapping"),
        (card_of("configs: 3"), '"configs" must be a list'),
        (card_of("configs: [{config_name: 1}]"), '"configs[0].config_name" must be a string'),
        (card_of("configs: [{config_name: a, data_files: [{path: a}]}]"), '"configs[0].data_files" needs split'),
    ],
)
def test_a_malformed_card_is_refused(hub, api, repo, monkeypatch, card, problem):
    """Before anything is sent, and a client that does not ask at the commit."""
    files = {"README.md": card, "a.parquet": BINARY}
    with pytest.raises(ValueError, match="Invalid metadata in README") as caught:
        publish(api, files)
    assert problem in str(caught.value)
    assert (hub.uploads(), hub.asked("preupload")) == ({}, [])
    monkeypatch.setattr(HfApi, "_validate_yaml", lambda *args, **kwargs: None)
    with refusal(400) as caught:
        publish(api, files)
    assert f"README.md: {problem}" in str(caught.value)
    assert len(hub.commits(repo)) == 1


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


@pytest.fixture
def token_of_before(monkeypatch):
    before = os.environ.get("HF_TOKEN")
    yield
    monkeypatch.undo()  # as it is after the test, when this fixture is no more
    assert os.environ.get("HF_TOKEN") == before


def test_a_token_that_a_test_takes_away_does_not_come_back_after_it(token_of_before, monkeypatch, api):
    monkeypatch.delenv("HF_TOKEN")


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
