"""Tasks for the tests of executors. They stand in a module of their own, which workers import."""

import multiprocessing.connection
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.errors import BuildError
from builders.executors.base import ONE_CORE, Resources, once_per_worker


def die(number=signal.SIGKILL):
    os.kill(os.getpid(), number)
    time.sleep(60)  # until the signal is delivered


@dataclass(frozen=True)
class Square:
    """Waits, counts an image of `number` bytes, and returns its square; `ballast` makes it a large message."""

    number: int
    seconds: float = 0
    ballast: bytes = b""
    resources: Resources = ONE_CORE

    def run(self, progress):
        time.sleep(self.seconds)
        progress(1, self.number)
        return self.number**2


@dataclass(frozen=True)
class Call:
    """Calls `what(progress)`, a function of this module."""

    what: Any
    resources: Resources = ONE_CORE

    def run(self, progress):
        return self.what(progress)


@dataclass(frozen=True)
class Touch:
    """Waits, and creates a file; another one as soon as it runs."""

    path: Path
    seconds: float = 0
    resources: Resources = ONE_CORE
    begun: Path | None = None

    def run(self, progress):
        if self.begun is not None:
            self.begun.touch()
        time.sleep(self.seconds)
        self.path.touch()


@dataclass(frozen=True)
class DieOnce:
    """Kills its process the first time that it runs, and says the second time which process that was."""

    path: Path
    resources: Resources = ONE_CORE

    def run(self, progress):
        progress(1, 1)
        if not self.path.exists():
            self.path.write_text(str(os.getpid()))
            die()
        return int(self.path.read_text()), os.getpid()


@dataclass(frozen=True)
class Visit:
    """Notes the Ray node that it runs on, waits, notes that it has ended, and returns the node."""

    folder: Path
    number: int
    seconds: float
    resources: Resources = ONE_CORE

    def run(self, progress):
        import ray

        node = ray.get_runtime_context().get_node_id()
        for moment in ("began", "ended"):
            with (self.folder / f"{self.number}-{moment}").open("a") as file:
                file.write(f"{node}\n")
            time.sleep(self.seconds if moment == "began" else 0)
        progress(1, 1)
        return node


@dataclass(frozen=True)
class Fail:
    """Waits, and raises a BuildError."""

    sentence: str
    seconds: float = 0
    resources: Resources = ONE_CORE

    def run(self, progress):
        time.sleep(self.seconds)
        raise BuildError(self.sentence)


@dataclass(frozen=True)
class Interval:
    """Returns when it began and ended, and in which process; waits until a number of tasks have begun in a folder."""

    resources: Resources = ONE_CORE
    folder: Path | None = None
    together: int = 1

    def run(self, progress):
        begun = time.monotonic()
        if self.folder is not None:
            (self.folder / f"{os.getpid()}-{begun}").touch()
            while len(list(self.folder.iterdir())) < self.together and time.monotonic() < begun + 60:
                time.sleep(0.01)
        time.sleep(0.02)
        return begun, time.monotonic(), os.getpid()


@dataclass(frozen=True)
class Weights:
    """Notes in a folder that it was made, and by whom."""

    folder: Path
    name: str

    def __call__(self):
        with (self.folder / f"{os.getpid()}").open("a") as file:
            file.write(f"{self.name} ")
        return self.name, os.getpid()


@dataclass(frozen=True)
class WithWeights:
    """Returns the weights, which its worker makes once."""

    weights: Weights
    resources: Resources = ONE_CORE

    def run(self, progress):
        time.sleep(0.005)
        return once_per_worker(self.weights)


class UnreadableError(Exception):
    """Can be pickled, but not read back: it takes two arguments and passes on one."""

    def __init__(self, one, two):
        super().__init__(one)


def raise_unreadable(progress):
    raise UnreadableError("one", "two")


def raise_value_error(progress):
    raise ValueError("no such thing")


def return_what_cannot_be_pickled(progress):
    return lambda: None


# Ways to die


class Deadly(int):
    """Kills the process that adds it to a number."""

    def __radd__(self, other):
        die()


class DeadlyToUnpickle:
    """Kills the process that reads it from a pickle; as a task, that is its worker."""

    resources = ONE_CORE

    def __reduce__(self):
        return die, ()

    def run(self, progress):
        raise AssertionError("never reached")


class DeadlyToPickle:
    """Kills the process that pickles it; as a result, that is the task's worker."""

    def __reduce__(self):
        die()


def die_at_work(progress):
    die()


def crash_at_work(progress):
    die(signal.SIGSEGV)


def exit_at_work(progress):
    os._exit(3)


def die_counting_images(progress):
    progress(Deadly(1), 1)


def die_pickling_the_answer(progress):
    return DeadlyToPickle()


def die_sending_the_answer(progress):
    """Half of the answer, or of its length, gets into the pipe."""

    def send(self, data, write=os.write):
        write(self.fileno(), bytes(data)[: len(data) // 2])
        die()

    multiprocessing.connection.Connection._send = send
    return bytes(1_000_000)


def die_receiving_the_next_task(progress):
    """Half of the length of the next task gets out of the pipe."""

    def receive(self, size, read=os.read):
        read(self.fileno(), size // 2)
        die()

    multiprocessing.connection.Connection._recv = receive


def variable(progress):
    """A variable that the test sets, as a worker sees it."""
    return os.environ.get("UNKNOWN_DETECTION_TEST")


def pages_of_images(_):
    """Fill and free the memory of a hundred images; returns how many pages the system had to give for it."""
    import resource  # which Windows lacks

    for last in (False, True):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(100 if last else 1):
            image = [bytearray(100_000) for _ in range(50)]
            del image
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
