import datasets
import pytest

from tests.conftest import made_once
from tests.own_folders.pictures import encoded
from tests.own_folders.trees import put, rng_of


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def plain_folder(root):
    for number, class_id in enumerate(("ant", "bee")):
        for image in range(5):
            put(root, f"{class_id}/{image}.png", encoded(rng_of(number, image), "png"))
    return root


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """Known classes with names that nobody minds."""
    return made_once(tmp_path_factory, "plain-known-folder", plain_folder)
