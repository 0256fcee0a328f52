"""The release of scikit-learn's digits that `python -m unknown_detection evaluate demo` has, for the examples."""

import datasets
import pytest

from tests.conftest import made_once


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory):
    """Nothing is left in, or taken from, the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("hf-datasets"))
        yield


@pytest.fixture(scope="session")
def digits_release(tmp_path_factory):
    """Six digits are known, three near, one external; crops of photographs are far and external. Read only."""
    pytest.importorskip("sklearn", reason="the digits and photographs are scikit-learn's")
    from unknown_detection.evaluation.demo.release import make_release

    return made_once(tmp_path_factory, "digits", make_release)
