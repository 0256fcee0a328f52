"""Real Ray clusters of this machine, for tests."""

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

needs_ray = pytest.mark.skipif(
    not any((Path(folder) / "ray" / "_raylet.so").exists() for folder in sys.path),
    reason="needs the extra ray: pip install -e '.[ray]'",
)


@contextlib.contextmanager
def start_cluster(environment=(), **resources):
    """Start a cluster's first node in an environment that its workers have; they import this checkout."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray")  # Ray's sockets lie in it, whose paths must be short
    # Ray's workers are nice by 15, and would wait for the other tests that run at the time.
    settings = {"RAY_TMPDIR": folder, "RAY_worker_niceness": "0", "PYTHONPATH": str(ROOT)}
    small = {"object_store_memory": 100_000_000, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**dict(environment), **settings}.items():
            patch.setenv(name, value)
        cluster = Cluster(initialize_head=True, head_node_args={**small, **resources}, shutdown_at_exit=False)
    try:
        yield cluster
    finally:
        cluster.shutdown()
        shutil.rmtree(folder)
