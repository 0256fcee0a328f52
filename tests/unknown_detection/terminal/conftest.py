from types import SimpleNamespace

import pytest

from tests.builders.conftest import files_of
from tests.unknown_detection.terminal.running import screen_of


@pytest.fixture(scope="session")
def built(demo, tmp_path_factory):
    """An undisturbed build on a terminal: its arguments but for the folder, the folder, its files, and the screen."""
    folder = tmp_path_factory.mktemp("terminal") / "release"
    splits = "imagenet/test,imagenet/near_ood"
    arguments = ("builders.imagenet_benchmark", "--imagenet", demo["imagenet"], "--splits", splits, "--workers", "2")
    code, lines = screen_of(*arguments, "--out", folder)
    assert code == 0, lines
    return SimpleNamespace(arguments=arguments, folder=folder, files=files_of(folder), lines=lines)
