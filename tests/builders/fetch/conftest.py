"""A web server, and nobody who waits."""

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
