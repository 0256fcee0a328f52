import os

import filelock
import pytest

from builders.cifar_benchmark import BENCHMARK as CIFAR
from builders.demo import write_demo
from tests.builders.conftest import build_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The demo sources by key, written once for all workers of a test run. Read only: nothing may change them."""
    base = tmp_path_factory.getbasetemp()
    # Each worker's own folder lies in one that is shared; without workers the parent outlives the run.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root = shared / "demo-sources"
    finished = shared / "demo-sources-written"
    with filelock.FileLock(shared / "demo-sources.lock"):
        if not finished.exists():
            write_demo(root)
            finished.touch()
    return {path.name: path for path in sorted(root.iterdir()) if path.is_dir()}


@pytest.fixture(scope="session")
def imagenet_release(demo, tmp_path_factory):
    """An undisturbed ImageNet-scale release of all splits, built by one worker."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root = shared / "release"
    with filelock.FileLock(shared / "release.lock"):
        if not (root / "manifest.json").exists():
            build_demo(demo, root)
    return root


@pytest.fixture(scope="session")
def cifar_release(demo, tmp_path_factory):
    """An undisturbed CIFAR-scale release of all splits, built by one worker."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root = shared / "cifar-release"
    with filelock.FileLock(shared / "cifar-release.lock"):
        if not (root / "manifest.json").exists():
            build_demo(demo, root, benchmark=CIFAR)
    return root
