"""What tests of release folders share: the undisturbed release of the demo sources, and a copy to damage."""

import os
import shutil

import pytest

from tests.builders.conftest import release

__all__ = ["copy", "release"]


@pytest.fixture
def copy(release, tmp_path):
    """A copy to damage: a file in it may be replaced, never written into, since it is a link."""
    shutil.copytree(release, tmp_path / "copy", copy_function=os.link, ignore=shutil.ignore_patterns(".state"))
    return tmp_path / "copy"
