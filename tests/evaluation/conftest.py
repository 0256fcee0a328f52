"""A small release, model, features and scores for all; the stand-in for the Hub, and caches that end with a run."""

import datasets
import pytest

import unknown_detection as ud
from examples.digits_release import write_release
from tests.conftest import made_once
from tests.evaluation.samples import CONFIG, fitted, small_release
from tests.hub.fixtures import api, hub, waits
from tests.hub.guard import only_loopback
from unknown_detection.evaluation.__main__ import main

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


@pytest.fixture(scope="session")
def model():
    """A small model that tells the small images apart. Left as it is."""
    from tests.evaluation.small_models import cnn

    return fitted(cnn)


@pytest.fixture(scope="session")
def weights(model, tmp_path_factory):
    """The file of its weights, which are those of `with_dropout`, too."""
    from tests.evaluation.extra import torch

    path = tmp_path_factory.mktemp("weights") / "cnn.pt"
    torch.save(model.state_dict(), path)
    return path


@pytest.fixture(scope="session")
def features(release, model, tmp_path_factory):
    """The model's of the small release, in a folder. Read only."""
    from tests.evaluation.extra import torch

    torch.set_num_threads(1)
    cache = tmp_path_factory.mktemp("features") / "kept"
    return ud.extract(model, release, f"{CONFIG},{CONFIG}-train", cache=cache, workers=0)


@pytest.fixture(scope="session")
def scores(features):
    """Scores of two detectors."""
    return ud.score(features, ["msp", "knn"], search=False)


@pytest.fixture
def command(capsys):
    """Runs a command with flags, and options by their names; the exit code, and what it said on stdout and stderr."""

    def run(name, *flags, **options):
        capsys.readouterr()
        named = [word for option, value in options.items() for word in (f"--{option.replace('_', '-')}", value)]
        code = main([name, *map(str, [*named, *flags])])
        return code, *capsys.readouterr()

    return run
