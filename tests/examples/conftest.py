"""The release of scikit-learn's digits for the examples."""

import pytest

from tests.evaluation.conftest import _cache, digits, one_thread

__all__ = ["_cache", "digits", "one_thread"]


@pytest.fixture(scope="session")
def digits_release(digits):
    """Six digits are known, three near, one external; crops of photographs are far and external. Read only."""
    return digits
