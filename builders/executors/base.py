"""The interfaces of tasks and of executors, which run tasks on this machine or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Value = TypeVar("Value")

Progress = Callable[[int, int], object]
"""Called with the number of images and bytes done since the last call."""


@dataclass(frozen=True)
class Resources:
    """Cores and GPUs that a task occupies while it runs; with half a GPU two tasks share one."""

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
        """Do the work; a task that runs twice may count its images twice.

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
    """Return the value of `create()`, which is called only once in each worker.

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


_PROGRESS_EVERY = 64
"""Images between two reports of progress (ours)."""


class ProgressCounter:
    """Counts images and bytes, and reports them in steps and at the end."""

    def __init__(self, images: int, progress: Progress) -> None:
        self.remaining, self.progress = images, progress
        self.images = self.bytes = 0

    def add(self, size: int) -> None:
        """Count one image."""
        self.images += 1
        self.bytes += size
        self.remaining -= 1
        if self.images == _PROGRESS_EVERY or not self.remaining:
            self.progress(self.images, self.bytes)
            self.images = self.bytes = 0


class Meter(Protocol):
    """Shows how far a long step is."""

    def step(self, title: str, images: int) -> None:
        """Begin a step over a number of images."""

    def advance(self, images: int, size: int = 0) -> None:
        """Count images and bytes as done."""

    def note(self, text: str) -> None:
        """Print a line that stays."""
