"""The stand-in for the Hub, and caches of `datasets` that end with a test run."""

import datasets
import pytest

from examples.digits_release import write_release
from tests.conftest import made_once
from tests.evaluation.samples import small_release
from tests.hub.fixtures import api, hub, waits
from tests.hub.guard import only_loopback

__all__ = ["api", "hub", "only_loopback", "waits"]


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory):
    """Nothing is left in, or taken from, the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("hf-datasets"))
        yield


@pytest.fixture
def one_thread():
    """Torch computes in one thread: small models gain nothing from more, and other tests run beside."""
    pytest.importorskip("torch", reason="runs torch models").set_num_threads(1)


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """The folder of the release of small images. Read only."""
    return made_once(tmp_path_factory, "small-release", small_release)


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """The folder of the release of digits. Read only."""
    return made_once(tmp_path_factory, "digits", write_release)
