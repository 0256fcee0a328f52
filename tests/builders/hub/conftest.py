"""The stand-in of the Hub, and nobody who waits."""

import pytest

from tests.hub.fixtures import api, hub, waits
from tests.hub.guard import only_loopback

__all__ = ["api", "hub", "only_loopback", "waits"]


@pytest.fixture
def naps(monkeypatch, waits):
    """Nobody waits between tries, neither the client nor we; the seconds that we would have."""
    seconds = []
    monkeypatch.setattr("builders.hub.retry.sleep", seconds.append)
    return seconds
