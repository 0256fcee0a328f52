"""Runs tasks on an existing Ray cluster, which schedules them and runs them again where a worker or node is lost."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import math
import os
import pickle
import platform
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from builders.errors import BuildError, one_line
from builders.executors.base import Progress, Resources, Result, Task, answer, without_pandas

_RETRIES = 3
"""How often Ray runs a task again whose worker died, or starts an actor again; its own default for tasks
(`ray.remote`, `max_retries`)."""

_LOOK_SECONDS = 0.2
"""How often the main thread looks for a Ctrl-C that did not wake it; ours."""

_CONNECT_SECONDS = 3.0

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The beginning of an HTTP/2 connection, on which gRPC stands: a fixed text and a SETTINGS frame that is empty. The
server's first frame is SETTINGS, too: the fourth of a header's nine bytes is 4 (RFC 9113, sections 3.4 and 4.1)."""

_PACKAGES = ("numpy", "pillow", "pyarrow")
"""Their versions can change a Parquet file's bytes, or what decodes."""


def cluster_address(address: str | None) -> str:
    """Return the address of a cluster that answers.

    Args:
        address: `HOST:PORT`; None takes the variable `RAY_ADDRESS`.

    Raises:
        BuildError: Ray is not installed, there is no address or it has another form, or none answers there.
    """
    ray = _imported()
    address = address or os.environ.get("RAY_ADDRESS")
    if not address:
        # Results are unpickled, so whoever listens on the default port before Ray does could run code here.
        raise BuildError(
            "--executor ray needs the address of a cluster. Give the HOST:PORT that `ray start --head` printed with "
            "--ray-address or in the variable RAY_ADDRESS; on this machine it is 127.0.0.1:6379 unless chosen."
        )
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise BuildError(
            f"{one_line(address)} is no address of a Ray cluster. Give the HOST:PORT that `ray start --head` printed "
            "(the port is 6379 unless chosen) with --ray-address, and run this command on a machine of the cluster."
        )
    _connect(host.strip("[]"), int(port))
    if host in ("localhost", "127.0.0.1", "[::1]"):
        # Ray takes the machine's own address for these, and waits without end where nothing answers there.
        _connect(ray.util.get_node_ip_address(), int(port))
    return address


def _connect(host: str, port: int) -> None:
    """Refuse an address where no gRPC server answers, for which `ray.init` waits for minutes.

    Raises:
        BuildError: none does.
    """
    problem = ""
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in ("1", "true"):  # whose first bytes Ray itself understands
                connection.sendall(_PREFACE)
                if connection.recv(9)[3:4] != b"\4":
                    problem = "something else than Ray listens there"
    except TimeoutError:
        problem = f"no answer within {_CONNECT_SECONDS:g} seconds"
    except OSError as error:
        problem = one_line(error.strerror or error)
    if problem:
        raise BuildError(
            f"No Ray cluster answers at {one_line(host)}:{port}: {problem}. Start one with `ray start --head`, or "
            "give the address that it printed with --ray-address."
        )


class RayExecutor:
    """A `builders.executors.base.Executor` on the nodes of a Ray cluster, one of which is this machine.

    Tasks without a GPU are Ray's tasks, whose processes Ray uses again for the next ones. Tasks with a GPU run in
    actors, as many as the cluster has GPUs for, because a process that has opened a GPU cannot change to another one.
    After a task has failed, those that Ray starts before it hears of it still run.
    Entering it joins the cluster, and leaving it ends whatever the cluster still runs for it.

    Args:
        address: `HOST:PORT` of the cluster; None takes `RAY_ADDRESS`.
    """

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._driver = Driver(str(Path.cwd()), _versions())

    def __enter__(self) -> RayExecutor:
        ray, self._address = _imported(), cluster_address(self._address)
        # Ray tells of lost workers at length on stdout, where results stand. What it could not mend is raised.
        ray._private.worker._worker_logs_enabled = False
        try:
            with _sigterm_waits():
                ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise BuildError(
                f"Cannot join the Ray cluster at {self._address}: {one_line(error)}. Run this command on a machine of "
                f"the cluster (`ray start --address={self._address}` adds one), with its versions of Ray and Python."
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _imported().shutdown()

    def run(self, tasks: Sequence[Task[Result]], progress: Progress) -> list[Result]:
        """Run every task; see `builders.executors.base.Executor`."""
        run = _RayRun(tasks, self._capacity({task.resources for task in tasks}), self._driver)
        try:
            while run.running:
                run.listen(progress)
        except BaseException:
            run.stop()
            while run.running:  # until a second Ctrl-C
                run.listen(progress)
            raise
        if run.failures:
            raise run.failures[min(run.failures)]
        return [run.results[number] for number in range(len(tasks))]

    def _capacity(self, needs: Iterable[Resources]) -> dict[Resources, int]:
        """Return how many tasks of each kind the cluster can run at a time.

        Raises:
            BuildError: no node can run tasks of a kind, for which Ray would wait without end.
        """
        nodes = [node["Resources"] for node in _imported().nodes() if node["Alive"]]
        capacity = {}
        for need in needs:
            amounts = {name: amount for name, amount in (("CPU", need.cpus), ("GPU", need.gpus)) if amount}
            capacity[need] = sum(
                math.floor(min((node.get(name, 0) / amount for name, amount in amounts.items()), default=1))
                for node in nodes
            )
            if not capacity[need]:
                raise BuildError(
                    f"No node of the Ray cluster at {self._address} has what a task needs ({need.cpus:g} cores, "
                    f"{need.gpus:g} GPUs). Add one that has: `ray start --address=... --num-cpus=... --num-gpus=...`."
                )
        return capacity


@contextlib.contextmanager
def _sigterm_waits() -> Iterator[None]:
    """Let SIGTERM wait while Ray is joined, and then do what it did before.

    Ray's handlers, one in Python and one in C++, print a stack and end the process with another code.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # where Ray sets none
        return
    handler = signal.getsignal(signal.SIGTERM)
    can_wait = hasattr(signal, "pthread_sigmask")  # not on Windows
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if can_wait else set()
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)
        if can_wait:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _Sent(NamedTuple):
    """A task that Ray has: its number, Ray's reference to the answer, and its actor if it has one."""

    number: int
    ref: Any
    actor: Any


class _RayRun:
    """The state of one call of `RayExecutor.run`."""

    def __init__(self, tasks: Sequence[Task[Any]], capacity: dict[Resources, int], driver: Driver) -> None:
        self._ray = _imported()
        self._tasks, self._driver = tasks, driver
        self._stopped = False
        self.running: dict[Future[Answer], _Sent] = {}
        """The tasks that were sent, by the futures of their answers."""
        self.results: dict[int, Any] = {}
        self.failures: dict[int, BaseException] = {}
        self._for_actors: dict[Resources, deque[int]] = {}
        for number, task in enumerate(tasks):
            if task.resources.gpus:
                self._for_actors.setdefault(task.resources, deque()).append(number)
        # Actors first: behind a long queue of tasks they would wait for their cores.
        for resources, numbers in self._for_actors.items():
            # Without end, since Ray also counts how often it asks an actor whose node has died before it knows that.
            # What ends it are the actor's restarts.
            actor = self._ray.remote(Worker).options(**_options(resources), max_restarts=_RETRIES, max_task_retries=-1)
            for _ in range(min(len(numbers), capacity[resources])):
                self._hand(actor.remote(), resources)
        send = self._ray.remote(work)
        for number, task in enumerate(tasks):
            if not task.resources.gpus:
                remote = send.options(**_options(task.resources), max_retries=_RETRIES)
                self._send(number, remote.remote(self._pickled(number), driver))

    def _send(self, number: int, ref: Any, actor: Any = None) -> None:
        self.running[ref.future()] = _Sent(number, ref, actor)

    def _pickled(self, number: int) -> bytes:
        # With what `__main__` defines, since a script's classes are in no module that workers could import.
        data: bytes = self._ray.cloudpickle.dumps(self._tasks[number])
        return data

    def _hand(self, actor: Any, resources: Resources) -> None:
        """Give an actor its next task. Without one its last reference goes, and Ray gives what it held to others."""
        numbers = self._for_actors[resources]
        if numbers:
            number = numbers.popleft()
            self._send(number, actor.work.remote(self._pickled(number), self._driver), actor)

    def listen(self, progress: Progress) -> None:
        """Wait for answers of workers, for a moment at most."""
        # Not by `ray.wait`, which calls the handlers of signals itself and loses every exception of theirs but
        # KeyboardInterrupt: `Stopped` would never come out of it. Nor for ever: see `builders.hub.client`.
        done, _ = wait(self.running, _LOOK_SECONDS, FIRST_COMPLETED)
        for future in done:
            self._receive(future, progress)

    def _receive(self, future: Future[Answer], progress: Progress) -> None:
        number, _, actor = self.running.pop(future)
        try:
            received = future.result()
        except self._ray.exceptions.TaskCancelledError:
            if not self._stopped:
                self._fail(number, BuildError("A task was cancelled from outside. Run the same command again."))
            return
        except self._ray.exceptions.RayError as error:
            self._fail(number, _lost_task_error(error))
            return
        succeeded, value = pickle.loads(received.data)
        if succeeded:
            self.results[number] = value
        else:
            self._fail(number, _readable_error(value, received.node))
        progress(received.images, received.size)
        if actor is not None:
            self._hand(actor, self._tasks[number].resources)

    def _fail(self, number: int, error: BaseException) -> None:
        self.failures[number] = error
        self.stop()

    def stop(self) -> None:
        """Start no further tasks."""
        if self._stopped:
            return
        self._stopped = True
        for numbers in self._for_actors.values():
            numbers.clear()
        for sent in self.running.values():
            if sent.actor is None:
                self._ray.cancel(sent.ref)  # which workers ignore once they run it


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise BuildError(
            "--executor ray needs the package ray, which is not installed. Run pip install 'unknown-detection[ray]' "
            "(in a checkout: pip install -e '.[ray]')."
        ) from error
    return ray


def _options(resources: Resources) -> dict[str, float]:
    """Return a task's resources as options of `ray.remote`."""
    return {"num_cpus": resources.cpus, "num_gpus": resources.gpus}


def _lost_task_error(error: Exception) -> BuildError:
    """Return the error for a task that Ray gave up."""
    last = (str(error).strip().splitlines() or [""])[-1]
    return BuildError(
        f"The Ray cluster gave up a task ({type(error).__name__}: {one_line(last)}). If workers were killed, usually "
        "for lack of memory, start the nodes with fewer --num-cpus; the project and its packages have to be installed "
        "on all of them. Run the same command again; it resumes."
    )


def _readable_error(error: BaseException, node: str) -> BaseException:
    """Return a task's exception, as a message for users if its node lacks a file or a package."""
    if isinstance(error, FileNotFoundError):
        return BuildError(
            f"A file that a task needs is not on the Ray node {node}: {one_line(error)}. The release folder with its "
            ".state and the sources must be at the same paths on all nodes, on a shared filesystem."
        )
    if isinstance(error, ImportError):
        return BuildError(
            f"A package that a task needs is not on the Ray node {node}: {one_line(error)}. Install the same extras "
            "on all nodes."
        )
    return error


class Driver(NamedTuple):
    """The working folder and library versions of the process that sends tasks; workers need the same."""

    folder: str
    versions: tuple[tuple[str, str], ...]


@dataclass
class Answer:
    """A worker's answer: the node's name, the images and bytes of the task, and its pickled result or exception."""

    node: str
    images: int = 0
    size: int = 0
    data: bytes = b""

    def count(self, images: int, size: int, /) -> None:
        """Add to the counts of finished images and bytes."""
        self.images += images
        self.size += size


def work(task: bytes, driver: Driver) -> Answer:
    """Run a pickled task; an exception is returned in the answer, so that Ray repeats only tasks of lost workers."""
    returned = Answer(platform.node())
    try:
        _set_up(driver)
    except BuildError as error:
        returned.data = pickle.dumps((False, error))
    else:
        returned.data = answer(task, returned.count)
    return returned


class Worker:
    """An actor that runs one task after another, so that tasks share costly setup."""

    def work(self, task: bytes, driver: Driver) -> Answer:
        """Run a pickled task."""
        return work(task, driver)


@functools.cache
def _set_up(driver: Driver) -> None:
    """Prepare this process for the driver's tasks: check its libraries, and change to the driver's folder.

    Raises:
        BuildError: the node lacks the folder or has other libraries.
    """
    # `ray.cancel` interrupts a task that runs. Here it is meant for those that wait; running ones are finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for (name, expected), (_, version) in zip(driver.versions, _versions(), strict=True):
        if version != expected:
            raise BuildError(
                f"The Ray node {platform.node()} has {name} {version}, and this machine {expected}; a release's bytes "
                "depend on it. Install the same versions on all nodes, and run the same command again."
            )
    try:
        os.chdir(driver.folder)
    except OSError as error:
        raise BuildError(
            f"The Ray node {platform.node()} cannot use the folder {driver.folder}: {error.strerror}. Start this "
            "command in a folder that all nodes share, with the release folder and the sources on a shared "
            "filesystem, at the same paths."
        ) from error
    without_pandas()


def _versions() -> tuple[tuple[str, str], ...]:
    return tuple((name, importlib.metadata.version(name)) for name in _PACKAGES)
