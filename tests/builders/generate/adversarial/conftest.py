"""A release of real pictures that were attacked on real weights, which several files of tests read."""

import pytest

from builders.broad_benchmark import main
from tests.builders.generate.adversarial import real


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """The weights and a source with 20 pictures, of each of which a mirror image is held out."""
    root = tmp_path_factory.mktemp("real")
    return real.write_weights(root / "lite0.pt"), real.write_source(root / "imagenet")


@pytest.fixture(scope="session")
def release(world, tmp_path_factory):
    """The pictures as they are, and attacked with PGD. Nothing may change it."""
    out = tmp_path_factory.mktemp("adversarial") / "release"
    splits = "--splits=broad-adversarial,broad-reference/test"
    assert main(real.arguments(world, splits, "--workers=1", "--attack-batch=8", f"--out={out}")) == 0
    return out
