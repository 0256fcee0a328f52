"""A web server, and nobody who waits."""

import contextlib
import socket
import threading

import pytest

from tests.builders.serving import Site
from tests.hub.guard import only_loopback

__all__ = ["only_loopback"]


@pytest.fixture
def site(only_loopback, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with Site().running() as running:
        yield running


@pytest.fixture
def waits(monkeypatch):
    """Nobody waits between tries; the seconds that we would have."""
    seconds = []
    monkeypatch.setattr("builders.fetch.http.time.sleep", seconds.append)
    return seconds


@pytest.fixture
def speaker(only_loopback, monkeypatch):
    """Start a server that says `first` to every request and then `again` without end; returns its address."""
    monkeypatch.setenv("no_proxy", "*")
    ended, threads = threading.Event(), []

    def start(target, *args):
        threads.append(threading.Thread(target=target, args=args))
        threads[-1].start()

    def speak(connection, first, again, every):
        with contextlib.suppress(OSError), connection:
            connection.settimeout(1)
            connection.recv(1 << 16)
            connection.sendall(first)
            while not ended.wait(every):
                connection.sendall(again)

    def listen(listener, *words):
        with listener:
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    start(speak, listener.accept()[0], *words)

    def serve(first, again, every=0.0):
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(0.1)
        start(listen, listener, first, again, every)
        return f"http://127.0.0.1:{listener.getsockname()[1]}/x.bin"

    yield serve
    ended.set()
    for thread in threads:
        thread.join()
