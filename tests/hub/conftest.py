"""A stand-in and a real client for each test that asks; no test may reach another host."""

import pytest

from tests.hub.fixtures import api, hub, waits
from tests.hub.guard import only_loopback
from tests.hub.samples import REPO, release

__all__ = ["api", "hub", "only_loopback", "waits"]


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
    """A release tagged v1, and on main one with another split and no config beta."""
    hub.commit(repo, release())
    hub.tag(repo, "v1")
    later = release({"alpha": ("train", "test", "more")})
    hub.commit(repo, {**later, "data/beta/test-00000-of-00001.parquet": None})
    return repo
