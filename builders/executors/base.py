"""The contract between tasks and the executors that run them, here or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Value = TypeVar("Value")


class Progress(Protocol):
    """Called with the images and bytes that are done since the last call."""

    def __call__(self, images: int, size: int, /) -> object:
        """Count them."""


@dataclass(frozen=True)
class Resources:
    """What a task occupies while it runs.

    Args:
        cpus: cores.
        gpus: devices; 0.5 lets two tasks share one.
        memory: bytes, 0 where the task does not say.
    """

    cpus: float = 1
    gpus: float = 0
    memory: int = 0

    def __post_init__(self) -> None:
        if min(self.cpus, self.gpus, self.memory) < 0:
            raise ValueError(f"Resources cannot be negative: {self}")


ONE_CORE = Resources()


class Task(Protocol[Result_co]):
    """A piece of work that any process may do, in any order, and more than once.

    A task is a value: pickled, it goes to a worker, which may be on another machine. It takes nothing from the process
    that made it but its own fields and the files that they name. The result is pickled, too, so large results belong
    in files.

    It may be killed at any instruction and run again, also while another worker runs it. So it writes files under
    temporary names and renames them when they are whole, and writes the same bytes each time.
    """

    @property
    def resources(self) -> Resources:
        """What it occupies."""

    def run(self, progress: Progress) -> Result_co:
        """Do the work.

        Args:
            progress: to be called now and then; what a run that is repeated counts may be counted twice.

        Raises:
            BuildError: something that the user can mend.
        """


class Executor(Protocol):
    """Runs tasks.

    Workers are processes that live as long as the executor and run one task after the other. What is costly to set up
    is set up once in each, by `once_per_worker`.
    """

    def run(self, tasks: Sequence[Task[Result]], progress: Progress) -> list[Result]:
        """Run every task.

        Tasks start in the order given, so the longest belong first. After a task has failed no other one starts, those
        that run end, and what they wrote stays. A worker that dies, at whatever instruction, is the failure of its
        task. The call always ends: it waits for nothing that a dead worker holds.

        Args:
            tasks: what to do.
            progress: called in the caller's process, from the caller's thread.

        Returns:
            The tasks' results, in the order of the tasks.

        Raises:
            BuildError: a worker died, or a task raised it.
            Exception: what the first task (in the order given) of those that failed raised. The executor can run other
                tasks then, unless a worker died.
        """


_kept: dict[Callable[[], Any], Any] = {}


def once_per_worker(create: Callable[[], Value]) -> Value:
    """Return what `create` returns, calling it only for the first of the tasks that a worker runs.

    A task calls this in `run` for what is costly to set up, such as weights on a device. The last value is kept
    until the worker ends, or another is asked for: it is let go first, as a device may not hold two models.

    Args:
        create: hashable, and equal for tasks that share the value: a function, or a frozen dataclass with `__call__`.
    """
    if create not in _kept:
        _kept.clear()
        _kept[create] = create()
    value: Value = _kept[create]
    return value


_PROGRESS_EVERY = 64


class Counted:
    """Reports images and bytes every so often, and at the end."""

    def __init__(self, images: int, progress: Progress) -> None:
        self.left, self.progress = images, progress
        self.images = self.bytes = 0

    def one(self, size: int) -> None:
        """One more image is done."""
        self.images += 1
        self.bytes += size
        self.left -= 1
        if self.images == _PROGRESS_EVERY or not self.left:
            self.progress(self.images, self.bytes)
            self.images = self.bytes = 0


class Meter(Protocol):
    """Shows how far a long step is."""

    def step(self, title: str, images: int) -> None:
        """Begin a step over so many images."""

    def advance(self, images: int, size: int = 0) -> None:
        """So many more images and bytes are done."""

    def note(self, text: str) -> None:
        """Say one line that stays."""
