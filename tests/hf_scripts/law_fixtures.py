"""Fixtures of the tests of the law: the release that is changed, and what `verify` says of it."""

import datasets
import pytest

from hf_scripts import verify
from tests.conftest import made_once
from tests.hf_scripts.folder_mutations import Folder
from tests.hf_scripts.law import everything_known, tiny_release
from tests.hf_scripts.samples import linked_copy


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return made_once(tmp_path_factory, "tiny-release", tiny_release)


@pytest.fixture(scope="session")
def known(tiny):
    return everything_known(tiny)


@pytest.fixture
def folder(tiny, tmp_path):
    return Folder(linked_copy(tiny, tmp_path / "release"), 0)


@pytest.fixture
def says(capsys):
    """What `verify` says of a folder that is not whole."""

    def run(folder, *flags):
        assert verify.main([str(folder.root), "--workers", "1", *flags]) == 1
        return [line for line in capsys.readouterr().out.splitlines()[:-1] if not line.startswith("note: ")]

    return run


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()
