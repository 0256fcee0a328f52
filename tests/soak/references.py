"""Undisturbed runs of operations, each made in two ways whose outcomes must be equal."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak import moments
from tests.soak.commands import Job, Launcher
from tests.soak.faults import ENOUGH, Reference
from tests.soak.judge import differences
from tests.soak.operations import Operation
from tests.soak.places import Place, World, new_place, own_disk

_POLL_SECONDS = 0.005
"""Seconds between two measurements of the space that a run takes."""


def executor_flags(operation: Operation, world: World, workers: int) -> tuple[str, ...]:
    """Return the flags for the executor of a command's tasks."""
    if operation.ray and world.ray:
        return ("--executor", "ray", "--ray-address", world.ray)
    return ("--workers", str(workers)) if operation.workers else ()


def job(operation: Operation, place: Place, name: str, workers: int) -> Job:
    """Return the job of an operation in a place."""
    arguments = (*operation.arguments(place), *executor_flags(operation, place.world, workers))
    return place.job(operation.module, arguments, name)


@dataclass
class References:
    """The undisturbed runs of operations, made when they are first needed.

    Attributes:
        world: the files that they read.
        disks: whether disks can be mounted.
        twice: whether each is repeated with more workers, started as by a user, and compared.
    """

    world: World
    disks: bool
    twice: bool = True
    _made: dict[str, Reference] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def of(self, operation: Operation, launcher: Launcher) -> Reference:
        """Return the undisturbed run of an operation.

        Raises:
            RuntimeError: it failed, or two such runs differ.
        """
        with self._lock:
            lock = self._locks.setdefault(operation.key, threading.Lock())
        with lock:
            if operation.key not in self._made:
                self._made[operation.key] = self._make(operation, launcher)
            return self._made[operation.key]

    def _make(self, operation: Operation, launcher: Launcher) -> Reference:
        first = self._run(operation, launcher, workers=1, warm=True)
        if not self.twice:
            return first
        # Waits for a Hub are equally long only where the command is forked.
        second = self._run(operation, launcher, workers=2, warm=operation.on_hub)
        if problems := differences(second.after, first.after):
            raise RuntimeError(f"undisturbed runs of {operation.key} differ: {problems}")
        return dataclasses.replace(first, cold_seconds=second.seconds)

    def _run(self, operation: Operation, launcher: Launcher, *, workers: int, warm: bool) -> Reference:
        folder = self.world.root / f"r{next(self._numbers)}"  # short, for the sockets of workers
        with new_place(folder, self.world, on_hub=operation.on_hub, on_store=operation.on_store) as place:
            operation.prepare(place)
            before = operation.outcome(place, None)
            trace = folder / "trace"
            requested = job(operation, place, "run", workers)
            requested = dataclasses.replace(requested, warm=warm, trace=str(trace) if warm else "")
            with own_disk(place.disk, ENOUGH) if self.disks else contextlib.nullcontext():
                before_bytes = most = used(place.disk, mounted=self.disks)
                running = launcher.start(requested)
                while not running.wait(_POLL_SECONDS):
                    most = max(most, used(place.disk, mounted=True)) if self.disks else most
                ran = running.finish()
                most = max(most, used(place.disk, mounted=self.disks))
                if ran.code != 0:
                    raise RuntimeError(f"{ran.line} ended with {ran.code} without a fault: {ran.err}")
                after = operation.outcome(place, ran)
            traced = moments.traced(trace)
            routes = place.requests()
        return Reference(before, after, ran.seconds, ran.seconds, most - before_bytes, traced, routes)


def used(folder: Path, *, mounted: bool) -> int:
    """Return the bytes used on a disk, or in a folder."""
    if mounted:
        return shutil.disk_usage(folder).used
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fitting(operations: Sequence[Operation], world: World) -> list[Operation]:
    """Return the operations of this soak: with a cluster those that can use it."""
    return [operation for operation in operations if operation.ray or not world.ray]
