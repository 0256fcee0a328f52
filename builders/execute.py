"""Runs shard tasks, here or in worker processes, and says how far they are."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any

from builders.errors import BuildError
from builders.shards import Progress, ShardTask, write_shard

_POLL_SECONDS = 0.1

_counters: Any = None
"""In a worker: images and bytes done by all workers, shared with the parent."""


def run(tasks: Sequence[ShardTask], *, workers: int, progress: Progress) -> None:
    """Write every shard.

    Args:
        tasks: what to write, in any order.
        workers: number of processes; with 1 the work is done here.
        progress: called with images and bytes done since the last call.

    Raises:
        BuildError: the first task (in the order given) that failed, after the running ones have ended. Shards that
        were
            finished stay.
    """
    if workers == 1 or len(tasks) <= 1:
        for task in tasks:
            write_shard(task, progress)
        return
    # Spawned, not forked: the parent has used Arrow's thread pool by now, and threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    counters = context.Array("q", 2)
    with concurrent.futures.ProcessPoolExecutor(
        min(workers, len(tasks)), mp_context=context, initializer=_start_worker, initargs=(counters,)
    ) as pool:
        futures = [pool.submit(_work, task) for task in tasks]
        try:
            _watch(futures, _Differences(counters, progress))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _watch(futures: Sequence[concurrent.futures.Future[None]], report: Callable[[], None]) -> None:
    pending = set(futures)
    failed = False
    while pending and not failed:
        done, pending = concurrent.futures.wait(pending, timeout=_POLL_SECONDS)
        report()
        failed = any(future.exception() is not None for future in done)
    for future in futures:
        if failed:
            future.cancel()
    concurrent.futures.wait([future for future in futures if not future.cancelled()])
    report()
    try:
        for future in futures:
            if not future.cancelled():
                future.result()
    except BrokenProcessPool as error:
        raise BuildError(
            "expected every worker to end by itself, but one was killed (memory is the usual reason); run the same "
            "command "
            "again, with fewer --workers, and it goes on where this run stopped."
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
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """End this worker when its parent is killed, so that no orphan writes into a folder that a rerun has locked."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _work(task: ShardTask) -> None:
    write_shard(task, _count)


def _count(images: int, size: int) -> None:
    with _counters.get_lock():
        _counters[0] += images
        _counters[1] += size
