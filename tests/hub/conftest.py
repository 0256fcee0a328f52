"""A stand-in and a real client for each test that asks; no test may reach another host."""

import pytest

from tests.hub.fixtures import api, hub
from tests.hub.guard import only_loopback
from tests.hub.samples import REPO, release

__all__ = ["api", "hub", "only_loopback"]


@pytest.fixture(autouse=True)
def guarded(request):
    request.getfixturevalue("only_loopback")


@pytest.fixture
def repo(hub):
    """A repository with nothing but the Hub's own initial commit."""
    hub.create(REPO)
    return REPO


@pytest.fixture
def published(hub, repo):
    """A release tagged v1."""
    hub.commit(repo, release())
    hub.tag(repo, "v1")
    return repo
