"""Fixtures for the tests that use the stand-in; a conftest.py imports those it wants by name."""

import pytest

from tests.hub.client import in_process, no_waiting
from tests.hub.server import Hub


@pytest.fixture
def hub():
    with Hub() as running:
        yield running


@pytest.fixture
def api(hub, tmp_path, monkeypatch):
    """A real `HfApi`; all other functions of huggingface_hub and datasets reach the stand-in too."""
    with in_process(hub, tmp_path) as client:
        yield client
        monkeypatch.undo()  # before the stand-in's token goes, which it would set again


@pytest.fixture
def waits():
    """huggingface_hub retries at once; the list of what it would have waited, in seconds."""
    with no_waiting() as seconds:
        yield seconds


@pytest.fixture
def naps(monkeypatch, waits):
    """Nobody waits between tries, neither the client nor we; the seconds that we would have."""
    seconds = []
    monkeypatch.setattr("builders.hub.retry.sleep", seconds.append)
    return seconds
