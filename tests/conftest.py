import os

import filelock
import pytest

from builders.demo import write_demo


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
