"""A Ray cluster on this machine with two workers against the local executor with two, on the same batches.

`python -m benchmarks.building.ray_cluster --scratch DIR` writes JPEGs of 500 x 375 (about 110 KB), starts a cluster,
and makes the fixed resize of each by both executors in turn: decoding, resizing, encoding and writing packs. Executors
and their workers are started before a round is timed. Processor time is that of the tasks, of this process, which
hands them out, and of the cluster's daemons (Linux's /proc).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from benchmarks.making.corruptions import write_plan
from benchmarks.making.fixed_resize import write_tree
from benchmarks.rivals import Run, interleave, report
from builders.cli.executor_flags import WORKER_IMPORTS
from builders.executors.base import ONE_CORE, Executor, Progress, Resources, Task, without_pandas
from builders.executors.local import LocalExecutor
from builders.executors.ray import RayExecutor
from builders.generate import batches
from builders.generate.exact.resize import FIXED_RESIZE
from builders.generate.task import BatchTask

WORKERS = 2


@dataclass(frozen=True)
class Measured:
    """A task that does the work of another one, and returns the processor seconds that it took."""

    task: BatchTask
    resources: Resources = ONE_CORE

    def run(self, progress: Progress) -> float:
        """Run the task."""
        before = _of_this_process()
        self.task.run(progress)
        return _of_this_process() - before


@dataclass
class Contender:
    """An executor, and for each round the processor seconds of its tasks, of this process, and of daemons."""

    executor: Executor
    tasks: Callable[[], Sequence[Task[float]]]
    daemons: Sequence[int] = ()
    seconds: list[tuple[float, float, float]] = field(default_factory=list)

    def work(self) -> float:
        """Run all tasks."""
        own_before, daemons_before = _of_this_process(), _of_processes(self.daemons)
        worked = sum(self.executor.run(self.tasks(), lambda *_: None))
        self.seconds.append((worked, _of_this_process() - own_before, _of_processes(self.daemons) - daemons_before))
        return 0.0


def _of_this_process() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _of_processes(numbers: Sequence[int]) -> float:
    """Return processor seconds of other processes: fields 14 and 15 of proc_pid_stat(5), after a name in brackets."""
    ticks = 0
    for number in numbers:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="folder with 4 GB free; emptied at the end")
    parser.add_argument("--images", type=int, default=4_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    tree, packs = args.scratch.absolute() / "tree", args.scratch.absolute() / "packs"
    if not tree.exists():
        write_tree(tree)
    plan = args.scratch.absolute() / "plan.arrow"
    rows = write_plan(tree, plan, args.images)

    def tasks() -> list[Measured]:
        parts = batches.cut_batches(rows, FIXED_RESIZE, "resized", packs)
        return [Measured(BatchTask(plan, batch, {"imagenet": str(tree)}, FIXED_RESIZE, False)) for batch in parts]

    def clean() -> None:
        shutil.rmtree(packs, ignore_errors=True)
        packs.mkdir()

    os.environ["RAY_TMPDIR"] = folder = tempfile.mkdtemp(prefix="ray")
    node = {"num_cpus": WORKERS, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        with LocalExecutor(WORKERS, preload=WORKER_IMPORTS) as local, RayExecutor(cluster.address) as joined:
            daemons = [info.process.pid for infos in cluster.head_node.all_processes.values() for info in infos]
            contenders = {"local": Contender(local, tasks), "ray": Contender(joined, tasks, daemons)}
            runs = {name: Run(clean, contender.work) for name, contender in contenders.items()}
            for contender in contenders.values():  # imports, and the first read of the tree
                clean()
                contender.work()
                contender.seconds.clear()
            results = interleave(runs, args.repeats)
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(tasks())} batches of {args.images:,} images, {WORKERS} workers, Ray {ray.__version__}")
    report(results, "local")
    base = statistics.median(map(sum, contenders["local"].seconds))
    for name, contender in contenders.items():
        worked, directed, served = (statistics.median(part) for part in zip(*contender.seconds, strict=True))
        parts = f"tasks {worked:.2f} s, this process {directed:.2f} s, daemons {served:.2f} s"
        print(f"{name:28} processor time: {parts}  ratio {statistics.median(map(sum, contender.seconds)) / base:.2f}")
    shutil.rmtree(args.scratch, ignore_errors=True)


if __name__ == "__main__":
    from benchmarks.building import ray_cluster  # whose classes workers can import, which they cannot from `__main__`

    without_pandas()
    ray_cluster.main()
