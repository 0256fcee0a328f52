"""Flags that say where tasks run, and the executor that they ask for.

Tested by `tests/builders/executors/test_ray.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import click

from builders.errors import BuildError
from builders.executors.base import Executor
from builders.executors.cores import usable_cores
from builders.executors.local import LocalExecutor
from builders.executors.ray import RayExecutor, check_cluster

EXECUTOR_FLAGS = ("workers", "executor", "ray_address")
"""The options of `executor_options`, as sections of a help page have them."""


def executor_options() -> list[Callable[[Any], Any]]:
    """Return --workers, --executor and --ray-address."""
    workers = click.option(
        "--workers",
        type=click.IntRange(min=1),
        show_default="all usable cores",
        help="Processes that write shards. The result does not depend on it.",
    )
    return [workers, *cluster_options()]


def cluster_options() -> list[Callable[[Any], Any]]:
    """Return --executor and --ray-address."""
    return [
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
    ]


def check_executor(flags: Mapping[str, Any]) -> None:
    """Check the flags, and that the Ray cluster answers if they ask for one, before any work.

    Raises:
        BuildError: flags contradict each other, Ray is not installed, or nothing answers at its address.
    """
    if flags["executor"] == "ray" and flags["workers"] is not None:
        raise BuildError(
            "--workers does not apply to --executor ray, which runs as many tasks as the nodes have cores. Leave it "
            "out, and start the nodes with `ray start --num-cpus=...`."
        )
    check_cluster_flags(flags["executor"], flags["ray_address"], dry_run=flags["dry_run"])


def check_cluster_flags(executor: str, ray_address: str | None, *, dry_run: bool) -> None:
    """Check --executor and --ray-address, and unless nothing is to be done, that the Ray cluster answers.

    Raises:
        BuildError: as for `check_executor`.
    """
    if executor != "ray" and ray_address is not None:
        raise BuildError("--ray-address is only used with --executor ray. Add it, or leave the address out.")
    if executor == "ray" and not dry_run:
        check_cluster(ray_address)


def chosen_executor(
    flags: Mapping[str, Any], *, gpus: float = 0, preload: Sequence[str] = ()
) -> AbstractContextManager[Executor]:
    """The executor that the flags ask for, to be entered; a dry run takes this machine.

    Args:
        flags: values of all flags by parameter name.
        gpus: devices that tasks may use on this machine.
        preload: modules that the tasks need.
    """
    if flags["executor"] == "ray" and not flags["dry_run"]:
        return RayExecutor(flags["ray_address"])
    return LocalExecutor(flags["workers"] or usable_cores(), gpus=gpus, preload=preload)
