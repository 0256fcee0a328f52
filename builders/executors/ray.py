"""Runs tasks on an existing Ray cluster, which schedules them and runs them again where a worker or node is lost."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import TracebackType
from typing import Any, NamedTuple

from builders.errors import BuildError, one_line
from builders.executors.base import Progress, Resources, Result, Task
from builders.executors.ray_address import answering_address, answers
from builders.executors.ray_worker import Answer, Driver, Worker, work
from builders.executors.worker import unpickled_answer
from unknown_detection.words import byte_text

_RETRIES = 3
"""How often Ray runs a task again whose worker died, or starts an actor again; its own default for tasks
(`ray.remote`, `max_retries`)."""

_LOOK_SECONDS = 0.2
"""How often the main thread looks for a Ctrl-C that did not wake it; ours."""


def check_cluster(address: str | None) -> None:
    """Check that Ray is installed, and that something answers at a cluster's address.

    Raises:
        BuildError: Ray is not installed, or nothing answers.
    """
    _joined_address(address)


def _joined_address(requested: str | None) -> str:
    """Return the address of a cluster that answers also where Ray will look for it."""
    ray = _imported()
    address = answering_address(requested)
    host, _, port = address.rpartition(":")
    own = ray.util.get_node_ip_address()
    # Ray takes the machine's own address for these, and waits without end where nothing answers there.
    if host in ("localhost", "127.0.0.1", "[::1]") and own not in host and not answers(own, int(port)):
        raise BuildError(
            f"The Ray cluster at {address} does not answer at {own}, by which Ray joins a cluster of this machine. "
            "Start it with `ray start --head`, without another address."
        )
    return address


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
        self._requested_address = address
        self._address = ""
        self._driver = Driver.current()

    def __enter__(self) -> RayExecutor:
        ray = _imported()
        self._address = _joined_address(self._requested_address)
        # Ray itself looks for a node on this machine for a minute, by the same function.
        find_nodes = getattr(ray._private.services, "find_node_ids", None)
        if find_nodes is not None and not find_nodes():
            raise BuildError(
                f"This machine is no node of the Ray cluster at {self._address}, or of any. Run this command on one "
                f"of its nodes, or add this machine with `ray start --address={self._address}`."
            )
        # Ray tells of lost workers at length on stdout, where results stand. What it could not mend is raised.
        ray._private.worker._worker_logs_enabled = False
        try:
            with _sigterm_waits():
                ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise BuildError(
                f"Cannot join the Ray cluster at {self._address}: {one_line(error)}. Run this command on a machine of "
                "the cluster (`ray start --address=...` adds one), with the cluster's versions of Ray and Python."
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _imported().shutdown()

    def run(self, tasks: Sequence[Task[Result]], progress: Progress) -> list[Result]:
        """Run every task; see `builders.executors.base.Executor`."""
        capacity = self._capacity({task.resources for task in tasks})
        run = _RayRun(tasks, capacity, self._driver)
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
        results: list[Result] = [run.results[number] for number in range(len(tasks))]
        return results

    def _capacity(self, needs: Iterable[Resources]) -> dict[Resources, int]:
        """Return how many tasks of each kind the cluster can run at a time.

        Raises:
            BuildError: no node can run tasks of a kind, for which Ray would wait without end.
        """
        nodes = [node["Resources"] for node in _imported().nodes() if node["Alive"]]
        capacity = {need: sum(_fitting(need, node) for node in nodes) for need in needs}
        for need in sorted((need for need in capacity if not capacity[need]), key=repr):
            most = max((node.get("GPU", 0) for node in nodes), default=0)
            if need.gpus > most:
                raise BuildError(
                    f"Too few GPUs: a task needs {need.gpus:g}, and no node of the Ray cluster at {self._address} has "
                    f"more than {most:g}. Add a node that has them with `ray start --address=... --num-gpus=...`."
                )
            raise BuildError(
                f"No node of the Ray cluster at {self._address} has what a task needs ({_in_words(need)}). Add one "
                "that has, with `ray start --address=...`."
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
        """Wait for answers, or for a moment."""
        # Not by `ray.wait`, which calls the handlers of signals itself and loses every exception of theirs but
        # KeyboardInterrupt: `Stopped` would never come out of it. Nor for ever: see `builders.hub.client`.
        done, _ = wait(self.running, _LOOK_SECONDS, FIRST_COMPLETED)
        for future in done:
            self._receive(future, progress)

    def _receive(self, future: Future[Answer], progress: Progress) -> None:
        number, _, actor = self.running.pop(future)
        try:
            answer = future.result()
        except self._ray.exceptions.TaskCancelledError:
            if not self._stopped:
                self._fail(number, BuildError("A task was cancelled from outside. Run the same command again."))
            return
        except self._ray.exceptions.RayError as error:
            self._fail(number, _lost_task_error(error))
            return
        succeeded, value = unpickled_answer(answer.data)
        if succeeded:
            self.results[number] = value
        else:
            self._fail(number, _readable_error(value, answer.node))
        progress(answer.images, answer.size)
        if actor is not None:
            self._hand(actor, self._tasks[number].resources)

    def _fail(self, number: int, error: BaseException) -> None:
        self.failures[number] = error
        self.stop()

    def stop(self) -> None:
        """Let no other task start."""
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


def _options(resources: Resources) -> dict[str, float | None]:
    """Return a task's resources as options of `ray.remote`."""
    return {"num_cpus": resources.cpus, "num_gpus": resources.gpus, "memory": resources.memory or None}


def _fitting(need: Resources, node: dict[str, float]) -> int:
    """Return how many tasks with a need a node can run at a time."""
    needs = {"CPU": need.cpus, "GPU": need.gpus, "memory": need.memory}
    shares = [node.get(name, 0) / amount for name, amount in needs.items() if amount]
    return math.floor(min(shares, default=1))


def _in_words(need: Resources) -> str:
    memory = f", {byte_text(need.memory)} of memory" if need.memory else ""
    return f"{need.cpus:g} cores, {need.gpus:g} GPUs{memory}"


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
