"""Runs tasks, here or in worker processes, and says how far they are."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from typing import Any, Protocol

from builders.errors import BuildError
from builders.process import end_with_parent, without_pandas
from builders.spans import Progress

_POLL_SECONDS = 0.1

_IMPORTED_ONCE = ("builders.cli", "builders.strips", "numpy.ma")
"""What the server imports that workers are forked from: all that a build uses, half a second of a core for each worker
that would import it itself. pyarrow asks for the last at the first array that it makes of one of NumPy's."""

_counters: Any = None
"""In a worker: images and bytes done by all workers, shared with the parent."""


class Task(Protocol):
    """Something that any process may do, in any order, twice; it travels to a worker."""

    def run(self, progress: Progress) -> None:
        """Do it, and say how many images and bytes are done since the last call."""


class Workers:
    """Processes that run tasks; with a count of 1 the work is done in this process.

    Entering starts them, and they import what they need while the caller plans.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # Not forked from this process: it has used Arrow's thread pool by now, and threads do not survive a fork.
        if "forkserver" in multiprocessing.get_all_start_methods():  # everywhere but on Windows
            self._context: BaseContext = multiprocessing.get_context("forkserver")
            self._context.set_forkserver_preload(list(_IMPORTED_ONCE))
        else:
            self._context = multiprocessing.get_context("spawn")
        self._counters = self._context.Array("q", 2)
        self._pool: ProcessPoolExecutor | None = None
        self._starting: threading.Thread | None = None

    def __enter__(self) -> Workers:
        if self.count > 1:
            self._pool = ProcessPoolExecutor(
                self.count, mp_context=self._context, initializer=_start_worker, initargs=(self._counters,)
            )
            # In a thread, because the server answers only when it has imported everything.
            self._starting = threading.Thread(target=self._start, args=(self._pool,), daemon=True)
            self._starting.start()
        return self

    def _start(self, pool: ProcessPoolExecutor) -> None:
        for _ in range(self.count):
            pool.submit(_stand_by)

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            if self._starting is not None:
                self._starting.join()
            self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, tasks: Sequence[Task], progress: Progress) -> None:
        """Run every task.

        Args:
            tasks: what to do, in any order.
            progress: called with images and bytes done since the last call.

        Raises:
            BuildError: the first task (in the order given) that failed, after the running ones have ended. What
                others finished stays.
        """
        if self._pool is None:
            for task in tasks:
                task.run(progress)
            return
        self._counters[:] = [0, 0]
        futures = [self._pool.submit(_work, task) for task in tasks]
        _watch(futures, _Differences(self._counters, progress))


def _watch(futures: Sequence[Future[None]], report: Callable[[], None]) -> None:
    pending: set[Future[None]] = set(futures)
    failed = False
    while pending and not failed:
        done, pending = wait_for(pending, timeout=_POLL_SECONDS)
        report()
        failed = any(future.exception() is not None for future in done)
    for future in pending:
        future.cancel()
    wait_for([future for future in futures if not future.cancelled()])
    report()
    try:
        for future in futures:
            if not future.cancelled():
                future.result()
    except BrokenProcessPool as error:
        raise BuildError(
            "expected every worker to end by itself, but one was killed (memory is the usual reason); run the same "
            "command again, with fewer --workers, and it goes on where this run stopped."
        ) from error


class _Differences:
    """Turns the shared totals into steps."""

    def __init__(self, counters: Any, progress: Progress) -> None:
        self.counters = counters
        self.progress = progress
        self.seen = (0, 0)

    def __call__(self) -> None:
        images, size = self.counters[:]
        if (images, size) != self.seen:
            self.progress(images - self.seen[0], size - self.seen[1])
            self.seen = (images, size)


def _start_worker(counters: Any) -> None:
    global _counters
    _counters = counters
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which decides
    without_pandas()
    end_with_parent()


def _stand_by() -> None:
    """Do nothing; a worker that gets to it has imported what it needs."""


def _work(task: Task) -> None:
    task.run(_count)


def _count(images: int, size: int) -> None:
    with _counters.get_lock():
        _counters[0] += images
        _counters[1] += size
