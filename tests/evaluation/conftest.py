"""The stand-in for the Hub, and caches of `datasets` that end with a test run."""

import datasets
import pytest

from tests.hub.fixtures import api, hub, waits
from tests.hub.guard import only_loopback

__all__ = ["api", "hub", "only_loopback", "waits"]


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory):
    """Nothing is left in, or taken from, the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("hf-datasets"))
        yield
