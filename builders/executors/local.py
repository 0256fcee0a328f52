"""Runs tasks on this machine, in the caller's process or in workers."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from types import TracebackType
from typing import Any

from builders.errors import BuildError
from builders.executors.base import Progress, Result, Task
from builders.executors.worker import READY, serve, unpickled_answer
from builders.storage.scratch import remove_stale_folders, scratch_folder

_POLL_SECONDS = 0.1
"""Progress is shown this often while no task ends."""

_END_SECONDS = 5
"""Timeout for the exit code of a worker whose pipe has closed; it usually takes a fraction of a second."""

_SOCKETS = "mp"
"""The purpose in the name of the folder with the fork server's socket. It is short since the path of a socket has at
most 103 characters on macOS, and that of a folder for temporary files there has 49."""

_SIGKILL = 9
"""The number in POSIX; `signal` lacks the name on systems without the signal."""


class LocalExecutor:
    """A `builders.executors.base.Executor` on this machine's cores; one worker means the caller's own process.

    Entering it starts the workers in the background, so that they import modules while the caller prepares the tasks.
    After a worker has died, or after Ctrl-C, it runs no more tasks.

    Args:
        workers: number of tasks that run at a time. A task that needs several cores counts as that many; memory is
            not considered.
        gpus: devices for tasks that need some.
        preload: modules that the tasks need. If workers are forked from a server, it imports them once for all.
            Leave out the module that runs as `__main__`: workers import it under another name, and Python warns.
        resumes: whether the tasks write files that the same command uses when it is run again. If so, running tasks
            are finished when the executor stops early (Ctrl-C, a dead worker); otherwise they are killed.
    """

    def __init__(self, workers: int, *, gpus: float = 0, preload: Sequence[str] = (), resumes: bool = True) -> None:
        self._slots, self._gpus, self._resumes = workers, gpus, resumes
        self._preload = preload
        self._workers: list[_LocalWorker] = []
        self._reported = (0, 0)
        self._closing = False
        self._starting: threading.Thread | None = None
        self._start_error: OSError | None = None

    def __enter__(self) -> LocalExecutor:
        if self._slots == 1:
            remove_stale_folders(_SOCKETS)
        else:
            context = _context(self._preload)
            self._shared: Any = context.RawArray("q", 2 * self._slots)
            self._workers = [_LocalWorker(context, self._shared, number) for number in range(self._slots)]
            # In a thread, because the server answers only after it has imported everything.
            forked = context.get_start_method() == "forkserver"
            socket_folder = _Sockets().in_use() if forked else contextlib.nullcontext()
            self._starting = threading.Thread(target=self._start, args=[socket_folder], daemon=True)
            self._starting.start()
        return self

    def _start(self, socket_folder: AbstractContextManager[None]) -> None:
        _block_interrupts()
        try:
            with socket_folder:
                for worker in self._workers:
                    if not self._closing:
                        worker.process.start()
                    worker.worker_pipe.close()
        except OSError as error:
            # No more processes or files, or no folder for a socket: `run` finds the pipes closed.
            self._start_error = error
        except EOFError:
            pass  # the server has ended, and so has the pipe
        finally:
            for worker in self._workers:
                worker.worker_pipe.close()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True  # workers that have not started yet are not started
        try:
            if self._starting is not None:
                self._starting.join()
            self._close(kill=kind is not None and not self._resumes)
            for worker in self._workers:
                worker.join()
        except BaseException:
            self._close(kill=True)  # a second Ctrl-C, while running tasks were finishing
            raise

    def run(self, tasks: Sequence[Task[Result]], progress: Progress) -> list[Result]:
        """Run every task; see `builders.executors.base.Executor`."""
        for task in tasks:
            if task.resources.gpus > self._gpus:
                raise BuildError(
                    f"Too few GPUs: a task needs {task.resources.gpus:g}, and {self._gpus:g} can be used here. Run it "
                    "on a machine with enough of them."
                )
        if self._slots == 1:
            return [task.run(progress) for task in tasks]
        if self._closing or not self._workers:
            raise RuntimeError("The executor was not entered, or its workers have ended.")
        run = _LocalRun(tasks, self._workers, self._slots, self._gpus)
        try:
            while not run.ended() and (run.dead is None or self._resumes):
                run.assign()
                run.listen()
                self._report(progress)
        except BaseException:
            # Nobody reads the answers of running tasks any more: workers exit when they find their pipes closed.
            self._close(kill=not self._resumes)
            raise
        if run.dead is not None:
            self._close(kill=not self._resumes)
            run.failures.setdefault(run.dead.task if run.dead.task is not None else len(tasks), self._death(run.dead))
        if run.failures:
            raise run.failures[min(run.failures)]
        results: list[Result] = [run.results[number] for number in range(len(tasks))]
        return results

    def _report(self, progress: Progress) -> None:
        numbers = self._shared[:]
        images, size = sum(numbers[::2]), sum(numbers[1::2])
        if (images, size) != self._reported:
            earlier, self._reported = self._reported, (images, size)
            progress(images - earlier[0], size - earlier[1])

    def _close(self, *, kill: bool) -> None:
        self._closing = True
        for worker in self._workers:
            worker.pipe.close()
            if kill and worker.process.pid is not None:
                worker.process.kill()

    def _death(self, worker: _LocalWorker) -> BuildError:
        if worker.process.pid is None and self._start_error is not None:
            return BuildError(
                f"A worker could not be started: {self._start_error.strerror or self._start_error}. Its socket lies "
                "in the temporary folder, which TMPDIR names. Fix this, or run the same command with --workers 1."
            )
        advice = "Run the same command with fewer --workers" + ("; it resumes." if self._resumes else ".")
        return BuildError(f"A worker {worker.describe_end()}. {advice}")


class _LocalWorker:
    """A worker process, started or not, and this process's end of its pipe."""

    def __init__(self, context: BaseContext, shared: Any, number: int) -> None:
        self.pipe, self.worker_pipe = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]  # every context has it
            target=serve, args=(self.worker_pipe, shared, number, dict(os.environ)), name=f"worker {number + 1}"
        )
        self.ready = False
        self.task: int | None = None

    def join(self) -> None:
        """Wait until the worker ends."""
        if self.process.pid is not None:
            self.process.join()

    def describe_end(self) -> str:
        """Describe for the user how a worker ended whose pipe has closed."""
        if self.process.pid is None:
            return "could not be started, usually for lack of memory"
        self.process.join(_END_SECONDS)
        code = self.process.exitcode
        if code is None or code == -_SIGKILL:
            return "was killed, usually for lack of memory"
        if code < 0:
            return f"crashed ({signal.strsignal(-code)})"
        return f"ended before its tasks were done (exit code {code})"


class _LocalRun:
    """The state of one call of `LocalExecutor.run`."""

    def __init__(self, tasks: Sequence[Task[Any]], workers: Sequence[_LocalWorker], slots: int, gpus: float) -> None:
        self.tasks, self.workers = tasks, workers
        self.next = 0
        self.slots, self.gpus = slots, gpus
        self.results: dict[int, Any] = {}
        self.failures: dict[int, BaseException] = {}
        self.dead: _LocalWorker | None = None

    def ended(self) -> bool:
        """Whether no task runs and none is left to start."""
        return not any(worker.task is not None for worker in self._alive()) and not self._can_start()

    def _can_start(self) -> bool:
        return self.next < len(self.tasks) and not self.failures and self.dead is None

    def _alive(self) -> list[_LocalWorker]:
        return [worker for worker in self.workers if not worker.pipe.closed]

    def assign(self) -> None:
        """Give every free worker a task, as long as resources suffice for the next one."""
        for worker in self._alive():
            if not self._can_start():
                return
            if worker.ready and worker.task is None:
                if not self._fits(self.next):
                    return
                worker.task = self.next
                self.next += 1
                data = pickle.dumps(self.tasks[worker.task])
                try:
                    worker.pipe.send_bytes(data)
                except OSError:
                    self._lost(worker)

    def listen(self) -> None:
        """Wait for an answer, or for a moment."""
        by_pipe = {worker.pipe: worker for worker in self._alive()}
        for pipe in wait(list(by_pipe), _POLL_SECONDS):
            self._receive(by_pipe[pipe])  # type: ignore[index]  # of the three kinds that `wait` takes, these are pipes

    def _receive(self, worker: _LocalWorker) -> None:
        try:
            data = worker.pipe.recv_bytes()
        except (EOFError, OSError):  # in the middle of an answer, too
            self._lost(worker)
            return
        if data == READY:
            worker.ready = True
            return
        if worker.task is None:
            raise AssertionError("a worker answered without a task")
        succeeded, value = unpickled_answer(data)
        (self.results if succeeded else self.failures)[worker.task] = value
        worker.task = None

    def _lost(self, worker: _LocalWorker) -> None:
        worker.pipe.close()
        if self.dead is None or (worker.task is not None and self.dead.task is None):
            self.dead = worker

    def _fits(self, number: int) -> bool:
        running = [worker.task for worker in self._alive() if worker.task is not None]
        needs = [self.tasks[task].resources for task in (number, *running)]
        # Cores are rounded up to whole ones; a task that needs more than there are runs alone.
        slots = sum(max(1, math.ceil(need.cpus)) for need in needs)
        gpus = math.fsum(need.gpus for need in needs)
        return not running or (slots <= self.slots and gpus <= self.gpus)


def _context(preload: Sequence[str]) -> BaseContext:
    # Not forked from this process: it may have used Arrow's thread pool by now, and threads do not survive a fork.
    if "forkserver" in multiprocessing.get_all_start_methods():  # everywhere but on Windows
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([serve.__module__, *preload])
        return context
    return multiprocessing.get_context("spawn")


_IN_USE: list[_Sockets] = []
"""Folders with a socket. A forked process forgets `multiprocessing`'s finalizers, and with the last reference to a
lock would release that of this process, too."""


class _Sockets:
    """A folder for the fork server's socket, which a later run removes if this process is killed.

    Otherwise Python makes one itself, `pymp-...`, which nobody removes.
    """

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(scratch_folder(_SOCKETS))

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Make a fork server that starts in the block put its socket there; other temporary folders stay elsewhere."""
        config = multiprocessing.current_process()._config  # type: ignore[attr-defined]  # Python asks for it there
        before, config["tempdir"] = config.get("tempdir"), str(self._folder)
        try:
            yield
        finally:
            config["tempdir"] = before
            if any(self._folder.iterdir()):
                _IN_USE.append(self)
                Finalize(None, self._stack.close, exitpriority=-100)  # as Python does with its own
            else:  # the server runs already
                self._stack.close()


def _block_interrupts() -> None:
    """Keep Ctrl-C, which the terminal sends to every process, from all that this thread starts.

    They inherit it from the thread. Workers also ignore it, but only once they have imported what they need.
    """
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # lets interrupts through again after it has started its own process
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
