"""The guard: other hosts are refused and noted, in this process and in subprocesses."""

import socket
import subprocess
import sys

import datasets
import huggingface_hub
import pytest

from tests.hub.client import in_process
from tests.hub.loopback import ForeignHostError, refused, watching

# 192.0.2.0/24 and example.* are set aside for documentation (RFC 5737, RFC 2606): nobody answers there.
ADDRESS = "192.0.2.7"

pytest_plugins = ["pytester"]


@pytest.fixture
def watched(guarded, tmp_path):
    """Attempts of these tests are noted apart, so that the fixture that watches all tests does not fail them."""
    log = tmp_path / "attempts"
    with watching(log):
        yield lambda: refused(log)


@pytest.mark.parametrize(
    ("attempt", "host"),
    [
        (lambda: socket.create_connection((ADDRESS, 80), timeout=1), ADDRESS),
        (lambda: socket.getaddrinfo("example.org", 443), "example.org"),
        (lambda: socket.gethostbyname("example.org"), "example.org"),
        (lambda: huggingface_hub.get_session().get("https://example.org/x"), "example.org"),
        (lambda: huggingface_hub.HfApi().whoami(token="hf_x"), "huggingface.co"),
        (lambda: datasets.load_dataset("org/name"), "huggingface.co"),
    ],
    ids=["connect", "look up", "look up by name", "session", "the real Hub", "load_dataset"],
)
def test_other_hosts_are_refused(watched, attempt, host):
    with pytest.raises(ForeignHostError, match=host):
        attempt()
    assert watched() == [host]


def test_datagrams_are_refused(watched):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, pytest.raises(ForeignHostError, match=ADDRESS):
        sender.sendto(b"x", (ADDRESS, 53))
    assert watched() == [ADDRESS]


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
    subprocess.run([sys.executable, "-c", REACH], env=environment, check=True)
    assert refused(tmp_path / "sub" / "foreign-hosts") == [ADDRESS]
    spawned = f"import multiprocessing as m; m.get_context('spawn').Pool(1).apply(exec, ({REACH!r},))"
    (tmp_path / "sub" / "foreign-hosts").unlink()
    subprocess.run([sys.executable, "-c", spawned], env=environment, check=True)
    assert refused(tmp_path / "sub" / "foreign-hosts") == [ADDRESS]


def test_the_clients_would_reach_others_without_the_settings(hub, tmp_path, watched, monkeypatch):
    """What `in_process` and `environment` switch off, each seen to be needed."""
    hub.create("org/name")
    hub.commit("org/name", {"a.csv": b"a\n1\n"})
    with in_process(hub, tmp_path):
        monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", True)
        datasets.load_dataset("org/name")
    assert watched() == ["s3.amazonaws.com"]
