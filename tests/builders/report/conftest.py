"""A demo release with its manifest, and small releases that a test may change."""

import pytest

from builders.release.manifest import read_manifest
from tests.hf_scripts.samples import make_release


@pytest.fixture(scope="session")
def manifest(imagenet_release):
    return read_manifest(imagenet_release)


def texts(table):
    """The rows of a table of the page, as text where a cell has more."""
    return [[getattr(cell, "text", cell) for cell in row] for row in table.rows]


@pytest.fixture
def small(tmp_path):
    """A release of eight rows: known ones and near unknowns."""
    return make_release(tmp_path / "release", {"bench/test": range(4), "bench/near_ood": range(4)}, publish="ids-only")
