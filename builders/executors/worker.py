"""The worker's side of `builders.executors.local`: receives tasks from its pipe one by one, and sends answers.

Each worker has its own pipe, and counters that no other process writes, and shares no lock. So if it dies, at whatever
instruction, no process waits for it: its end of the pipe closes.

Tested by `tests/builders/executors/test_local.py`.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Mapping, MutableSequence
from multiprocessing.connection import Connection
from typing import Any

from builders.executors.base import Progress
from builders.executors.processes import end_with_parent, without_pandas

READY = b""
"""The message of a worker that has started; a pickle is never empty."""


class Counters:
    """Counts the images and bytes of one worker in memory shared with its parent.

    Both numbers only grow. Each is stored in one aligned word of 8 bytes, which needs no lock if only one process
    writes it: a reader sees the old number or the new one.

    Args:
        shared: counters of all workers, two numbers each.
        worker: number of this worker.
    """

    def __init__(self, shared: MutableSequence[int], worker: int) -> None:
        self._shared, self._first = shared, 2 * worker
        self._images = self._size = 0

    def __call__(self, images: int, size: int, /) -> None:
        """Add to the counters."""
        self._images += images
        self._size += size
        self._shared[self._first] = self._images
        self._shared[self._first + 1] = self._size


def serve(connection: Connection, shared: MutableSequence[int], worker: int, environment: Mapping[str, str]) -> None:
    """Run tasks until the parent closes the pipe; the main function of a worker.

    Args:
        connection: delivers pickled tasks; receives `READY`, and for each task a pickled answer: whether it succeeded,
            and its result or exception.
        shared: counters of all workers.
        worker: this worker's number.
        environment: the caller's variables. A worker that a server forks has those of when the server was started,
            which may lack the credentials of a store.
    """
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which decides
    without_pandas()
    end_with_parent()
    progress = Counters(shared, worker)
    try:
        connection.send_bytes(READY)
        while True:
            connection.send_bytes(answer(connection.recv_bytes(), progress))
    except (EOFError, OSError):  # the parent has closed its end
        return


def answer(task: bytes, progress: Progress) -> bytes:
    """Run a pickled task and pickle its answer: whether it succeeded, and its result or exception."""
    try:
        return pickle.dumps((True, pickle.loads(task).run(progress)))
    except Exception as error:  # noqa: BLE001 - the parent raises it
        return failure(error)


def failure(error: Exception) -> bytes:
    """Pickle a task's exception with its traceback as a note, or the traceback alone if it cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    error.add_note(f"\nIn the worker:\n{text}")
    try:
        data = pickle.dumps((False, error))
        pickle.loads(data)
    except Exception:  # noqa: BLE001 - pickling runs code of the exception's class
        return pickle.dumps((False, RuntimeError(f"A task raised an exception that cannot be pickled:\n{text}")))
    return data


def unpickled_answer(data: bytes) -> tuple[bool, Any]:
    """Return whether a task succeeded, and its result or exception; called by the parent."""
    succeeded, value = pickle.loads(data)
    return succeeded, value
