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
    """Of four cores and two GPUs one half leaves, with a task and an actor; the actor waits for the other's GPU."""
    need = Resources(cpus=0, gpus=1)
    work = [Visit(tmp_path, n, 0.8, need if n % 3 == 0 else Resources()) for n in range(24)]
    finished = set()
    with start_cluster(num_cpus=2, num_gpus=1) as cluster:
        node = cluster.add_node(num_cpus=2, num_gpus=1, object_store_memory=100_000_000)

        def remove(images, size):
            ended = {path.name for path in tmp_path.glob("*-ended")}
            busy = {n % 3 == 0 for n in running_on(tmp_path, node.node_id)} == {True, False}
            if busy and len(ended) > 4 and not finished:
                finished.update(ended)
                cluster.remove_node(node, allow_graceful=False)

        with RayExecutor(cluster.address) as executor:
            executor.run(work, remove)
    ran = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert finished
    assert all(len(ran[name]) == 1 for name in finished)
    began = [len(lines) for name, lines in ran.items() if name.endswith("began")]
    # What ran there, but for a task that ended just before: the actor's, and one or two others.
    assert 1 <= began.count(2) <= 3
    assert began.count(1) == 24 - began.count(2)


def running_on(folder, node):
    """The numbers of the tasks that a node works on."""
    began = {path.name.removesuffix("-began"): path.read_text().split() for path in folder.glob("*-began")}
    return [int(name) for name, nodes in began.items() if node in nodes and not (folder / f"{name}-ended").exists()]
