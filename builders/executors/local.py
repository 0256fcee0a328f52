"""Runs tasks on this machine, in the caller's process or in workers.

Each worker has its own pipe, and shares no lock and no memory. So if it dies, at whatever instruction, no process
waits for it: its end of the pipe closes.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from types import TracebackType
from typing import Any

from builders.errors import BuildError
from builders.executors.base import Progress, Result, Task, answer, keep_freed_memory, without_pandas
from builders.storage.scratch import remove_stale_folders, scratch_folder

_POLL_SECONDS = 0.1
"""How often a worker reports its progress, and the caller looks for a Ctrl-C that did not wake it."""

_END_SECONDS = 5
"""Timeout for the exit code of a worker whose pipe has closed; it usually takes a fraction of a second."""

_SOCKETS = "mp"
"""The purpose in the name of the folder with the fork server's socket. It is short since the path of a socket has at
most 103 characters on macOS, and that of a folder for temporary files there has 49."""

_FILES = 8
"""Files that are open while a worker starts: a socket, two pipes, and their copies (`multiprocessing.forkserver`)."""

_SIGKILL = 9
"""The number in POSIX; `signal` lacks the name on systems without the signal."""


class LocalExecutor:
    """A `builders.executors.base.Executor` on this machine's cores; one worker means the caller's own process.

    Entering it starts the workers in the background, so that they import modules while the caller prepares the tasks.
    After a worker has died, or after Ctrl-C, it runs no more tasks.

    Args:
        workers: number of tasks that run at a time. A task that needs several cores counts as that many; those that
            need a GPU share one.
        preload: modules that the tasks need. If workers are forked from a server, it imports them once for all.
            Leave out the module that runs as `__main__`: workers import it under another name, and Python warns.
        resumes: whether the tasks write files that the same command uses when it is run again. If so, running tasks
            are finished when the executor stops early (Ctrl-C, a dead worker); otherwise they are killed.
    """

    def __init__(self, workers: int, *, preload: Sequence[str] = (), resumes: bool = True) -> None:
        self._slots, self._preload, self._resumes = workers, preload, resumes
        self._workers: list[_Worker] = []
        self._closing = False
        self._starting = threading.Thread(target=self._start, daemon=True)
        self._start_error: Exception | None = None

    def __enter__(self) -> LocalExecutor:
        if self._slots == 1:
            remove_stale_folders(_SOCKETS)
        else:
            context = _context(self._preload)
            try:
                self._workers = [_Worker(context, number) for number in range(self._slots)]
            except OSError as error:  # no more files
                raise BuildError(
                    f"{self._slots:,} workers cannot be started: {error.strerror}. Give fewer --workers."
                ) from error
            self._starting.start()  # in a thread: the server answers only after it has imported everything
        return self

    def _start(self) -> None:
        try:
            _block_interrupts()
            for worker in self._workers:
                if not self._closing:
                    _require_files()
                    worker.process.start()
        except (OSError, EOFError) as error:  # no more processes or files, no folder for a socket, no server
            self._start_error = error
        finally:
            for worker in self._workers:
                worker.worker_pipe.close()  # so that the other end is told when the worker's closes

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True  # workers that have not started yet are not started
        try:
            if self._workers:
                self._starting.join()
            self._close(kill=kind is not None and not self._resumes)
            for worker in self._workers:
                if worker.process.pid is not None:
                    worker.process.join()
        except BaseException:
            self._close(kill=True)  # a second Ctrl-C, while running tasks were finishing
            raise

    def run(self, tasks: Sequence[Task[Result]], progress: Progress) -> list[Result]:
        """Run every task; see `builders.executors.base.Executor`."""
        if self._slots == 1:
            return [task.run(progress) for task in tasks]
        if self._closing or not self._workers:
            raise RuntimeError("The executor was not entered, or its workers have ended.")
        answers: dict[int, Any] = {}
        failures: dict[int, Exception] = {}
        started = 0
        try:
            while self._running() or (started < len(tasks) and not failures):
                if not failures:
                    started = self._assign(tasks, started)
                for worker in self._listen():
                    number = len(tasks) if worker.task is None else worker.task
                    try:
                        kind, value = pickle.loads(worker.pipe.recv_bytes())
                    except (EOFError, OSError):  # in the middle of an answer, too
                        worker.pipe.close()
                        failures.setdefault(number, self._death(worker))
                        if not self._resumes:
                            raise failures[number] from None
                        continue
                    if kind is None:
                        progress(*value)
                    else:
                        (answers if kind else failures)[number] = value
                        worker.task = None
        except BaseException:
            # Nobody reads the answers of running tasks any more: workers exit when they find their pipes closed.
            self._close(kill=not self._resumes)
            raise
        if any(worker.pipe.closed for worker in self._workers):
            self._close(kill=False)
        if failures:
            raise failures[min(failures)]
        return [answers[number] for number in range(len(tasks))]

    def _running(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.task is not None and not worker.pipe.closed]

    def _listen(self) -> list[_Worker]:
        """Wait for messages, or for a moment; returns the workers that sent one, or have died."""
        ready = wait([worker.pipe for worker in self._workers if not worker.pipe.closed], _POLL_SECONDS)
        return [worker for worker in self._workers if worker.pipe in ready]

    def _assign(self, tasks: Sequence[Task[Any]], started: int) -> int:
        """Give every free worker a task, as long as resources suffice for the next one; returns how many started."""
        for worker in self._workers:
            if worker.task is not None or started == len(tasks):
                continue
            occupied = [tasks[other.task].resources for other in self._running() if other.task is not None]
            needs = [tasks[started].resources, *occupied]
            fits = sum(need.cpus for need in needs) <= self._slots and sum(need.gpus for need in needs) <= 1
            if occupied and not fits:  # what needs more than there is runs alone
                break
            worker.task, started = started, started + 1
            with contextlib.suppress(OSError):  # `_listen` finds the pipe closed
                worker.pipe.send_bytes(pickle.dumps(tasks[worker.task]))
        return started

    def _close(self, *, kill: bool) -> None:
        self._closing = True
        for worker in self._workers:
            worker.pipe.close()
            if kill and worker.process.pid is not None:
                worker.process.kill()

    def _death(self, worker: _Worker) -> BuildError:
        """Return the error for a worker whose pipe has closed."""
        if worker.process.pid is None:
            error = self._start_error
            reason = getattr(error, "strerror", None) or str(error or "") or "memory may be short"
            return BuildError(
                f"A worker could not be started: {reason}. Its socket lies in the temporary folder, which TMPDIR "
                "names. Fix this, or run the same command with --workers 1."
            )
        worker.process.join(_END_SECONDS)
        code = worker.process.exitcode
        end = f"ended before its tasks were done (exit code {code})"
        if code is None or code == -_SIGKILL:
            end = "was killed, usually for lack of memory"
        elif code < 0:
            end = f"crashed ({signal.strsignal(-code)})"
        advice = "Run the same command with fewer --workers" + ("; it resumes." if self._resumes else ".")
        return BuildError(f"A worker {end}. {advice}")


def begin(preload: Sequence[str]) -> None:
    """Have the server from which workers are forked import modules already, for an executor that is entered later.

    What goes wrong, that executor finds again and says.
    """

    def start(ensure_running: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            _block_interrupts()
            ensure_running()

    with contextlib.suppress(BuildError, OSError):
        if _context(preload).get_start_method() == "forkserver":
            from multiprocessing import forkserver  # which Windows lacks

            threading.Thread(target=start, args=(forkserver.ensure_running,), daemon=True).start()


class _Worker:
    """A worker process, started or not, this process's end of its pipe, and the number of its task."""

    def __init__(self, context: BaseContext, number: int) -> None:
        self.pipe, self.worker_pipe = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]  # every context has it
            target=_serve, args=(self.worker_pipe, dict(os.environ)), name=f"worker {number + 1}"
        )
        self.task: int | None = None


def _context(preload: Sequence[str]) -> BaseContext:
    # Not forked from this process: it may have used Arrow's thread pool by now, and threads do not survive a fork.
    if "forkserver" not in multiprocessing.get_all_start_methods():  # on Windows
        return multiprocessing.get_context("spawn")
    _socket_folder()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *preload])
    return context


@functools.cache
def _socket_folder() -> contextlib.ExitStack:
    """Have the fork server's socket put into a folder that a later run removes if this process is killed.

    Otherwise Python makes one itself, `pymp-...`, which nobody removes. The result is to be kept: a forked process
    forgets `multiprocessing`'s finalizers, and with the last reference would release this process's lock, too.
    """
    stack = contextlib.ExitStack()
    folder = stack.enter_context(scratch_folder(_SOCKETS))
    multiprocessing.current_process()._config["tempdir"] = str(folder)  # type: ignore[attr-defined]
    Finalize(None, stack.close, exitpriority=-100)  # as Python does with its own
    return stack


def _block_interrupts() -> None:
    """Keep Ctrl-C, which the terminal sends to every process, from all that this thread starts.

    They inherit it from the thread. Workers also ignore it, but only once they have imported what they need.
    """
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # lets interrupts through again after it has started its own process
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _require_files() -> None:
    """Raise `OSError` if this process may not open the files that starting a worker takes.

    The server, which would be asked for a worker without getting them, would die with a traceback.
    """
    with contextlib.ExitStack() as opened:
        for _ in range(_FILES):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))


class _Counter:
    """A worker's progress, sent to the caller from time to time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._images = self._size = 0
        self._next = 0.0

    def __call__(self, images: int, size: int, /) -> None:
        self._images += images
        self._size += size
        if time.monotonic() > self._next:
            self.send()

    def send(self) -> None:
        if self._images or self._size:
            with contextlib.suppress(OSError):  # a task is finished also after the caller has closed its end
                self._connection.send_bytes(pickle.dumps((None, (self._images, self._size))))
        self._images = self._size = 0
        self._next = time.monotonic() + _POLL_SECONDS


def _serve(connection: Connection, environment: Mapping[str, str]) -> None:
    """Run tasks until the caller closes the pipe; the main function of a worker.

    The pipe delivers pickled tasks, and takes progress and for each task its `answer`. `environment` is the caller's:
    a worker that a server forks has that of when the server was started, which may lack the credentials of a store.
    """
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the caller, which decides
    without_pandas()
    keep_freed_memory()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    progress = _Counter(connection)
    with contextlib.suppress(EOFError, OSError):  # the caller has closed its end
        while True:
            data = answer(connection.recv_bytes(), progress)
            progress.send()
            connection.send_bytes(data)


def _end_with_parent() -> None:
    """End this worker when its parent is killed, so that no orphan writes to a folder that a rerun has locked."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
