"""What a store, or the way to it, answers: each in a sentence."""

import socket
import time
import urllib.request

import pytest

from builders.errors import BuildError
from builders.storage.files import write_text
from builders.storage.paths import as_path
from tests.sentences import assert_sentence
from tests.store.fixtures import forget_clients
from tests.store.proxy import CUT, NO_ANSWER
from tests.store.server import SECRET


@pytest.fixture
def address(store):
    return f"s3://{store.bucket()}/release"


def message_of(action):
    forget_clients()
    with pytest.raises(BuildError) as raised:
        action()
    sentence = str(raised.value)
    assert sentence.isprintable()
    assert SECRET not in sentence
    return sentence


def test_a_bucket_that_is_not_there(store):
    address = "s3://no-such-bucket-anywhere/x"
    expected = f"{address}: there is no such bucket, or none that these credentials can see."
    assert message_of(lambda: as_path(address).require_access()).startswith(f"Cannot use {expected}")
    assert message_of(lambda: as_path(address).read_bytes()).startswith(f"Cannot read {expected}")
    assert message_of(lambda: write_text(as_path(address), "x")).startswith(f"Cannot write {expected}")
    assert message_of(lambda: as_path(address).exists()).startswith(f"Cannot look at {expected}")
    assert message_of(lambda: list(as_path(address).iterdir())).startswith(f"Cannot list {expected}")


def test_a_bucket_that_google_does_not_have(google):
    path = as_path("gs://no-such-bucket-anywhere/x")
    for action in (path.require_access, lambda: write_text(path, "x")):
        assert "gs://no-such-bucket-anywhere/x: there is no such bucket, or none that" in message_of(action)


def test_no_credentials(address, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    message = message_of(lambda: as_path(address).require_access())
    assert_sentence(message, "AWS_PROFILE")
    monkeypatch.setenv("AWS_PROFILE", "mine")
    message = message_of(lambda: as_path(address).require_access())
    assert_sentence(message)


def test_credentials_that_the_store_refuses(address, store):
    # moto checks keys and signatures from now on, as its documentation of IAM-like access control says.
    def checked(count):
        plain = {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(f"{store.url}/moto-api/reset-auth", count, plain)).read()

    checked(b"0")
    try:
        sentence = message_of(lambda: as_path(address).require_access())
        assert_sentence(sentence, "403")
        sentence = message_of(lambda: write_text(as_path(address), "x"))
        assert_sentence(sentence)
    finally:
        checked(b"inf")


def test_a_refusal_is_not_taken_for_a_file_that_is_not_there(address, proxy):
    proxy.fault = lambda request: 403
    for ask in ("exists", "is_file", "is_dir", "read_bytes", "stat"):
        assert "the store refused these credentials" in message_of(
            lambda ask=ask: getattr(as_path(f"{address}/x"), ask)()
        )


def test_no_network_is_told_in_seconds(address, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        started = time.monotonic()
        sentence = message_of(lambda: as_path(address).require_access())
    assert_sentence(sentence)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("fault", [503, CUT, NO_ANSWER])
def test_a_request_that_fails_twice_is_asked_again(address, proxy, fault):
    forget_clients()
    path = as_path(f"{address}/x")
    write_text(path, "ä" * 1000)
    remaining = {"GetObject": [fault, fault], "PutObject": [fault, fault]}
    proxy.fault = lambda request: remaining[request.kind].pop() if remaining.get(request.kind) else None
    assert path.read_text(encoding="utf-8") == "ä" * 1000
    write_text(path, "ö")
    assert path.read_bytes() == "ö".encode()
    assert remaining == {"GetObject": [], "PutObject": []}


def test_a_store_that_stays_busy_is_told_at_the_end(address, proxy, monkeypatch):
    monkeypatch.setattr("builders.storage.stores.path.ATTEMPTS", 2)
    proxy.fault = lambda request: 503
    sentence = message_of(lambda: as_path(f"{address}/x").read_bytes())
    assert "Please reduce your rate" in sentence and sentence.endswith("run the same command again; it resumes.")


def test_what_a_run_had_to_leave_goes_with_the_next(address, proxy, monkeypatch):
    """Found by the soak: the file that shows whether one may be written stayed where it could not be removed."""
    monkeypatch.setattr("builders.storage.stores.path.ATTEMPTS", 2)
    proxy.fault = lambda request: 503 if request.kind == "DeleteObject" else None
    assert message_of(lambda: as_path(address).require_access(writing=True)).startswith(
        f"Cannot remove {address}/.state/asked: "
    )
    proxy.fault = None
    forget_clients()
    as_path(address).require_access(writing=True)
    assert not as_path(address).exists()
