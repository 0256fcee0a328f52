import gc
import os
import uuid

import filelock
import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from builders.broad_benchmark import BENCHMARK as BROAD
from builders.cifar_benchmark import BENCHMARK as CIFAR
from builders.demo.write import write_demo
from builders.facets_benchmark import BENCHMARK as FACETS
from builders.openood_benchmark import BENCHMARK as OPENOOD
from hf_scripts import export
from tests import sentences
from tests.browser import chromium, open_page
from tests.builders.conftest import build_demo
from tests.endtoend import is_endtoend
from tests.store.fixtures import google, google_server, proxy, store, store_server
from unknown_detection.durable import NO_SYNC

__all__ = ["chromium", "google", "google_server", "open_page", "proxy", "store", "store_server"]


# Thousands of small files are written, of which none has to survive a power cut. Tests of flushing use `flushed`.
os.environ[NO_SYNC] = "1"

# A busy machine takes its time for one example, which says nothing of the law.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# gcsfs asks Google over gRPC what kind of bucket one is, which no emulator answers, and gives up after a minute.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


def pytest_addoption(parser):
    sentences.add_option(parser)


def pytest_configure(config):
    sentences.register(config)


def pytest_xdist_auto_num_workers():
    """Workers of `-n auto`: one more than there are cores, since many tests wait for processes and servers."""
    return (os.cpu_count() or 1) + 1


TOGETHER = ("tests/fuzz/", "tests/taxonomy/")
"""Folders whose files share what is a process's own: the server of forks that has imported all, and nltk's WordNet."""


class ByFile(LoadFileScheduling):
    """All tests of a file run in one worker, so that what they share is made once and not by every worker."""

    def _split_scope(self, nodeid):
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Objects of collection live to the end, so none is looked at for garbage: neither now nor while tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def no_copies(tmp_path_factory, monkeypatch):
    """`verify` says where `datasets` has copies of a folder of a name; those of users and other tests are not ours."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path_factory.getbasetemp() / f"datasets-{uuid.uuid4().hex}"))


@pytest.fixture
def flushed(monkeypatch):
    """Files are flushed to the disk as for users."""
    monkeypatch.delenv(NO_SYNC)


def pytest_collection_modifyitems(config, items):
    """Mark end-to-end tests where `-m` names the mark: to find them takes each worker a second."""
    if "endtoend" in config.getoption("markexpr"):
        for item in filter(is_endtoend, items):
            item.add_marker("endtoend")


def made_once(tmp_path_factory, name, make):
    """A folder of the test run that the first worker to need it makes and all others share."""
    base = tmp_path_factory.getbasetemp()
    # Each worker's own folder lies in one that is shared; without workers the parent outlives the run.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, finished = shared / name, shared / f"{name}-made"
    with filelock.FileLock(shared / f"{name}.lock"):
        if not finished.exists():
            make(folder)
            finished.touch()
    return folder


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The demo sources by key. Read only: nothing may change them."""
    root = made_once(tmp_path_factory, "demo-sources", write_demo)
    return {path.name: path for path in sorted(root.iterdir()) if path.is_dir()}


@pytest.fixture
def drawn_demo(demo, monkeypatch):
    """`--demo` and the command `demo` find the demo sources drawn, as in a folder where a build was before."""
    monkeypatch.setattr(
        "builders.commands.demo_build.keep_demo", lambda root, keys, **_: {key: demo[key] for key in keys}
    )
    monkeypatch.setattr("builders.commands.demo.write_demo", lambda root, **_: {key: root / key for key in demo})


@pytest.fixture(scope="session")
def laid_out(demo, tmp_path_factory):
    """Gives the folder of a demo source in another layout, made once for all tests. Read only."""

    def root_of(key, convert):
        name = f"layout-{key}-{convert.__name__}"

        def make(folder):
            folder.mkdir()
            root = convert(demo[key], folder / "copy")
            (folder / "root").write_text(root.relative_to(folder).as_posix())

        folder = made_once(tmp_path_factory, name, make)
        return folder / (folder / "root").read_text()

    return root_of


@pytest.fixture(scope="session")
def imagenet_release(demo, tmp_path_factory):
    """An undisturbed ImageNet-scale release of all splits, built by one worker."""
    return made_once(tmp_path_factory, "release", lambda root: build_demo(demo, root))


@pytest.fixture(scope="session")
def cifar_release(demo, tmp_path_factory):
    """An undisturbed CIFAR-scale release of all splits, built by one worker."""
    return made_once(tmp_path_factory, "cifar-release", lambda root: build_demo(demo, root, benchmark=CIFAR))


@pytest.fixture(scope="session")
def facets_release(demo, tmp_path_factory):
    """An undisturbed release of all configs of FACETS, built by one worker."""
    return made_once(tmp_path_factory, "facets-release", lambda root: build_demo(demo, root, benchmark=FACETS))


@pytest.fixture(scope="session")
def broad_release(demo, tmp_path_factory):
    """An undisturbed release of BROAD without images that are made, built by one worker."""
    splits = tuple(key for key, split in BROAD.parts.items() if split.generator is None)
    return made_once(
        tmp_path_factory, "broad-release", lambda root: build_demo(demo, root, benchmark=BROAD, splits=splits)
    )


@pytest.fixture(scope="session")
def openood_release(demo, tmp_path_factory):
    """An undisturbed release of the usual configs of OpenOOD, but for MOS's SUN, of which the demo has no image."""
    splits = tuple(key for key in OPENOOD.usual() if key != "mos/sun")
    return made_once(
        tmp_path_factory, "openood-release", lambda root: build_demo(demo, root, benchmark=OPENOOD, splits=splits)
    )


@pytest.fixture(scope="session")
def openood_tree(openood_release, tmp_path_factory):
    """That release exported as OpenOOD's folders by one worker. Read only."""

    def make(out):
        assert export.main([str(openood_release), "--format", "openood-tree", "--out", str(out), "--quiet"]) == 0

    return made_once(tmp_path_factory, "openood-tree", make)
