"""A Ray cluster of two nodes, one of which leaves. In a module of its own, because a process joins one cluster."""

import pytest

from builders.executors.base import Resources
from builders.executors.ray import RayExecutor
from tests.builders.executors.ray_cluster import needs_ray, start_cluster
from tests.builders.executors.tasks import Visit


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_node_that_leaves_loses_no_finished_task(tmp_path):
    """Of four cores and two GPUs one half leaves; the actor that was there waits for the other's GPU."""
    need = Resources(cpus=0.5, gpus=1)
    work = [Visit(tmp_path, n, 0.3, need if n % 3 == 0 else Resources()) for n in range(18)]
    finished, heard = set(), []
    with start_cluster(num_cpus=2, num_gpus=1) as cluster:
        node = cluster.add_node(num_cpus=2, num_gpus=1, object_store_memory=100_000_000)

        def remove(images, size):
            heard.append(images)
            if len(heard) == 6:
                finished.update(path.name for path in tmp_path.glob("*-ended"))
                cluster.remove_node(node, allow_graceful=False)

        with RayExecutor(cluster.address) as executor:
            nodes = executor.run(work, remove)
    assert len(set(nodes)) == 2, "both had tasks"
    ran = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert all(len(ran[name]) == 1 for name in finished)
    began = [len(lines) for name, lines in ran.items() if name.endswith("began")]
    assert len(began) == 18
    assert max(began) == 2, "a task of the node that left was run again"
