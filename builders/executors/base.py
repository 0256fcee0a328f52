"""The interfaces of tasks and executors, and what all processes that run tasks share, here or elsewhere."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Value = TypeVar("Value")

Progress = Callable[[int, int], object]
"""Called with the number of images and bytes done since the last call, as often as a task likes."""


@dataclass(frozen=True)
class Resources:
    """The cores and GPUs that a task occupies while it runs; two tasks with half a GPU share one."""

    cpus: float = 1
    gpus: float = 0


ONE_CORE = Resources()


class Task(Protocol[Result_co]):
    """A unit of work that any process may run, in any order and more than once.

    A task is a value that is pickled and sent to a worker, perhaps on another machine. It depends only on its fields
    and on the files that they name. Its result is pickled too, so large results belong in files.

    A task may be killed at any instruction and run again, even while another worker runs it. So it writes files under
    temporary names, renames them when they are complete, and writes the same bytes every time.
    """

    @property
    def resources(self) -> Resources:
        """Resources that the task occupies."""

    def run(self, progress: Progress) -> Result_co:
        """Do the work. `progress` may count images twice for a task that runs twice.

        Raises:
            BuildError: a problem that the user can fix.
        """


class Executor(Protocol):
    """Runs tasks in workers: processes that live as long as the executor and run one task after another."""

    def run(self, tasks: Sequence[Task[Result]], progress: Progress) -> list[Result]:
        """Run every task, and return their results in the order of the tasks.

        Tasks start in the given order, so the longest should come first. After a task has failed no other one starts,
        running tasks are finished, and their files are kept. If a worker dies, its task has failed. The call always
        returns: it never waits for anything that a dead worker holds.

        Raises:
            BuildError: a worker died, or a task raised it.
            Exception: the exception of the first task that failed, in the given order. The executor can run other
                tasks afterwards, unless a worker died.
        """


_worker_values: dict[Callable[[], Any], Any] = {}


def once_per_worker(create: Callable[[], Value]) -> Value:
    """Return the value of `create()`, calling it only once in each worker.

    Tasks use it for expensive setup, such as loading weights onto a device. A worker keeps the last value, and
    releases it before it creates another one, because a device may not hold two models.

    Args:
        create: hashable, and equal for tasks that share the value: a function, or a frozen dataclass with `__call__`.
    """
    if create not in _worker_values:
        _worker_values.clear()
        _worker_values[create] = create()
    value: Value = _worker_values[create]
    return value


class Advance(Protocol):
    """Counts finished images, and their bytes if known."""

    def __call__(self, images: int, size: int = 0) -> None:
        """Count those done since the last call."""


class Meter(Protocol):
    """Shows the progress of a long step."""

    def step(self, title: str, images: int) -> AbstractContextManager[Advance]:
        """Show the progress of a step over a number of images, for as long as its block runs."""

    def note(self, text: str) -> None:
        """Print a line that stays on the screen."""


class _NoPandas:
    """An import finder that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=name)


def without_pandas() -> None:
    """Keep pyarrow from importing pandas in this process.

    pyarrow looks for pandas once, when it creates its first array, and imports it if it is installed (`datasets`
    depends on it). No step of a build uses pandas, and its import costs more than everything else that a worker loads:
    0.4 s and 40 MB. Afterwards this process cannot convert Arrow tables to pandas, so only commands and workers may
    call this function, never a library function that runs in a user's process.
    """
    sys.meta_path.insert(0, _NoPandas)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


_KEPT_BYTES = 1 << 24
"""Half of the freed memory that a process keeps at most (ours): ten large images."""


def keep_freed_memory() -> None:
    """Have this process keep the memory of an image for the next one.

    By the size of what is freed glibc decides how much it keeps (mallopt(3), M_MMAP_THRESHOLD); else the memory of
    each image goes back to the system, which fills it with zeros again. None of these bytes is touched.
    """
    bytes(_KEPT_BYTES)


def answer(task: bytes, progress: Progress) -> bytes:
    """Run a pickled task, and return a pickle: whether it succeeded, and its result or exception.

    An exception has the traceback as a note; of one that cannot be pickled that alone is left.
    """
    try:
        return pickle.dumps((True, pickle.loads(task).run(progress)))
    except Exception as error:  # noqa: BLE001 - the caller raises it
        text = "".join(traceback.format_exception(error))
        error.add_note(f"\nIn the worker:\n{text}")
        try:
            data = pickle.dumps((False, error))
            pickle.loads(data)
        except Exception:  # noqa: BLE001 - pickling runs code of the exception's class
            return pickle.dumps((False, RuntimeError(f"A task raised an exception that cannot be pickled:\n{text}")))
        return data


_CGROUP = Path("/sys/fs/cgroup")
"""Where a container sees its own control group, of version 2 or 1 (cgroups(7))."""


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """Count the cores that this process may use, at least 1.

    This is the lesser of its CPU affinity (`taskset`, a batch system's cpuset) and the quota of its container, rounded
    up (`docker run --cpus`, a Kubernetes limit). Python's `os.process_cpu_count` (3.13) considers only the affinity.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):  # no such controller, or `max`, so no limit
            quota, period = map(int, " ".join((cgroup / name).read_text() for name in files).split())
            if quota > 0 and period > 0:  # -1 means no limit
                cores = min(cores, math.ceil(quota / period))
    return cores
