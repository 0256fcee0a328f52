"""The worker's side of `builders.executors.local`: takes tasks from its pipe one by one, and answers.

Each worker has a pipe of its own and counters that nobody else writes, and shares no lock with any process. So it can
die at any instruction and nobody waits for it: its end of the pipe closes with it. The tests of both sides are in
`tests/builders/executors/test_local.py`.

Tested by `tests/builders/executors/test_local.py`.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from collections.abc import MutableSequence
from multiprocessing.connection import Connection
from typing import Any

from builders.executors.processes import end_with_parent, without_pandas

READY = b""
"""What a worker sends when it has started; no pickle is empty."""


class Counters:
    """Adds up what one worker has done, where its parent can see it.

    Both numbers only grow. Each is stored in one aligned word of 8 bytes, which needs no lock where only one process
    writes: a reader sees the old number or the new one.

    Args:
        shared: of all workers, two numbers each.
        worker: whose numbers these are.
    """

    def __init__(self, shared: MutableSequence[int], worker: int) -> None:
        self._shared, self._first = shared, 2 * worker
        self._images = self._size = 0

    def __call__(self, images: int, size: int, /) -> None:
        """Count them."""
        self._images += images
        self._size += size
        self._shared[self._first] = self._images
        self._shared[self._first + 1] = self._size


def serve(connection: Connection, shared: MutableSequence[int], worker: int) -> None:
    """Run tasks until the parent closes the pipe; the main function of a worker.

    Args:
        connection: brings pickled tasks; takes `READY`, and a pickled answer for each task: whether it went well, and
            its result or what it raised.
        shared: counters of all workers.
        worker: this worker's number.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which decides
    without_pandas()
    end_with_parent()
    progress = Counters(shared, worker)
    try:
        connection.send_bytes(READY)
        while True:
            connection.send_bytes(_answer(connection.recv_bytes(), progress))
    except (EOFError, OSError):  # the parent has closed its end
        return


def _answer(task: bytes, progress: Counters) -> bytes:
    try:
        return pickle.dumps((True, pickle.loads(task).run(progress)))
    except Exception as error:  # noqa: BLE001 - the parent raises it
        return _failure(error)


def _failure(error: Exception) -> bytes:
    """Pickle what a task raised, with its traceback as a note; where it does not survive that, the traceback alone."""
    text = "".join(traceback.format_exception(error))
    error.add_note(f"\nIn the worker:\n{text}")
    try:
        data = pickle.dumps((False, error))
        pickle.loads(data)
    except Exception:  # noqa: BLE001 - pickling runs code of the exception's class
        return pickle.dumps((False, RuntimeError(f"A task raised an exception that cannot be pickled:\n{text}")))
    return data


def answered(data: bytes) -> tuple[bool, Any]:
    """Read an answer back, in the parent."""
    well, value = pickle.loads(data)
    return well, value
