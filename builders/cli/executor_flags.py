"""Declares the flags that say where tasks run, and starts the executor that they ask for.

Tested by `tests/builders/executors/test_ray.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import click

from builders.errors import BuildError
from builders.executors.base import Executor, usable_cores

EXECUTOR_FLAGS = ("workers", "executor", "ray_address")
"""The options of `EXECUTOR_OPTIONS`, as sections of a help page have them."""

WORKER_IMPORTS = ("builders.declare.benchmark", "builders.generate.task", "builders.pipeline.shards", "numpy.ma")
"""What a build's workers import at their start. No declared benchmark is among it, since the running one is `__main__`
and would be imported again under its own name; pyarrow imports `numpy.ma` at the first array of NumPy's."""


def workers_option(text: str, default: Callable[[], int] | None = usable_cores) -> Callable[[Any], Any]:
    """Return the option `--workers`; without a default, it is None unless it is given."""
    kind, shown = click.IntRange(min=1), "all usable cores"
    return click.option("--workers", type=kind, default=default, show_default=shown, help=text)


CLUSTER_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--executor",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="local: this machine. ray: the machines of a running Ray cluster (docs/cluster.md).",
    ),
    click.option(
        "--ray-address",
        metavar="HOST:PORT",
        help="The cluster, as `ray start --head` printed it. [default: the variable RAY_ADDRESS]",
    ),
)

EXECUTOR_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    workers_option("Processes that write shards. The result does not depend on it.", default=None),
    *CLUSTER_OPTIONS,
)


@dataclass(frozen=True)
class ExecutorFlags:
    """The values of the flags that say where tasks run; a dry run stays on this machine."""

    executor: str = "local"
    workers: int | None = None
    ray_address: str | None = None
    dry_run: bool = False

    def check(self) -> None:
        """Check the flags before any work, and if they ask for a Ray cluster, that it answers."""
        if self.executor != "ray":
            if self.ray_address is not None:
                raise BuildError("--ray-address is only used with --executor ray. Add it, or leave the address out.")
            return
        if self.workers is not None:
            raise BuildError(
                "--workers does not apply to --executor ray, which runs as many tasks as the nodes have cores. Leave "
                "it out, and start the nodes with `ray start --num-cpus=...`."
            )
        if not self.dry_run:
            from builders.executors.ray import cluster_address

            cluster_address(self.ray_address)

    def started(self, preload: Sequence[str] = ()) -> AbstractContextManager[Executor]:
        """Return the executor that the flags ask for, a context manager; a dry run gets one without workers."""
        if self.executor == "ray" and not self.dry_run:
            from builders.executors.ray import RayExecutor

            return RayExecutor(self.ray_address)
        from builders.executors.local import LocalExecutor

        return LocalExecutor(self.processes, preload=preload)

    def begin(self, preload: Sequence[str]) -> None:
        """Have workers on this machine import modules already, while the command does what comes before `started`."""
        if self.executor == "local" and self.processes > 1:
            from builders.executors.local import begin

            begin(preload)

    @property
    def processes(self) -> int:
        """The number of processes of an executor on this machine."""
        return 1 if self.dry_run else self.workers or usable_cores()
